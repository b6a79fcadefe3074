"""Turns points into messages: each message once, at its best part, without cutting ties apart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter

from nomemory.server.message import Filter
from nomemory.server.vector.protocol import VectorHit

MARGIN = 16
GROWTH = 4

_SCORE, _TIME, _SEQUENCE = attrgetter("score"), attrgetter("ts_us"), attrgetter("sequence")

Fetch = Callable[[int], Awaitable[list[VectorHit]]]
"""Return so many of the nearest points, best first, ties in any order; fewer only if there are no more."""


async def nearest(fetch: Fetch, narrowed: Filter, limit: int) -> list[VectorHit]:
    """Return the nearest messages by score and `ts` descending: at least `limit` if there are as many, ties whole.

    Points that tie with the last one may have fellows beyond it, so they count only once nothing is beyond.
    """
    asked = limit + limit // 2 + MARGIN
    while True:
        points = _clamped(await fetch(asked))
        if len(points) < asked:
            return _cut(_messages(points, narrowed), limit)
        last = points[-1].score
        hits = _messages([point for point in points if point.score > last], narrowed)
        if len(hits) >= limit:
            return _cut(hits, limit)
        asked *= GROWTH


def _clamped(points: list[VectorHit]) -> list[VectorHit]:
    """Take off the rounding that puts the cosine of equal vectors beyond one."""
    if not points or (points[0].score <= 1.0 and points[-1].score >= -1.0):  # the best come first
        return points
    return [VectorHit(max(-1.0, min(1.0, point.score)), point.ts_us, point.sequence) for point in points]


def _messages(points: list[VectorHit], narrowed: Filter) -> list[VectorHit]:
    if narrowed.since_us is not None or narrowed.until_us is not None:
        points = [point for point in points if _is_within(point.ts_us, narrowed)]
    if len(set(map(_SEQUENCE, points))) < len(points):
        points = _first_of_each(points)
    latest_first = sorted(points, key=_TIME, reverse=True)
    return sorted(latest_first, key=_SCORE, reverse=True)


def _first_of_each(points: list[VectorHit]) -> list[VectorHit]:
    best: dict[int, VectorHit] = {}
    for point in points:
        best.setdefault(point.sequence, point)
    return list(best.values())


def _is_within(ts_us: int, narrowed: Filter) -> bool:
    since, until = narrowed.since_us, narrowed.until_us
    return (since is None or since <= ts_us) and (until is None or ts_us < until)


def _cut(hits: list[VectorHit], limit: int) -> list[VectorHit]:
    if len(hits) <= limit:
        return hits
    worst = hits[limit - 1].score
    return [hit for hit in hits if hit.score >= worst]
