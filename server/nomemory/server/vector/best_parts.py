"""Turns points into messages: each message once, at its best part, without cutting ties apart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from nomemory.server.message import Filter
from nomemory.server.vector.protocol import VectorHit

MARGIN = 16
GROWTH = 4

Fetch = Callable[[int], Awaitable[list[VectorHit]]]
"""Return so many of the nearest points, best first, ties in any order; fewer only if there are no more."""


async def nearest(fetch: Fetch, narrowed: Filter, limit: int) -> list[VectorHit]:
    """Return the nearest messages by score and `ts` descending: at least `limit` if there are as many, ties whole.

    Points that tie with the last one may have fellows beyond it, so they count only once nothing is beyond.
    """
    asked = limit + limit // 2 + MARGIN
    while True:
        points = [_clamped(point) for point in await fetch(asked)]
        if len(points) < asked:
            return _cut(_messages(points, narrowed), limit)
        hits = _messages((point for point in points if point.score > points[-1].score), narrowed)
        if len(hits) >= limit:
            return _cut(hits, limit)
        asked *= GROWTH


def _clamped(point: VectorHit) -> VectorHit:
    """Take off the rounding that puts the cosine of equal vectors beyond one."""
    if -1.0 <= point.score <= 1.0:
        return point
    return VectorHit(max(-1.0, min(1.0, point.score)), point.ts_us, point.sequence)


def _messages(points: Iterable[VectorHit], narrowed: Filter) -> list[VectorHit]:
    best: dict[int, VectorHit] = {}
    for point in points:
        if _is_within(point.ts_us, narrowed):
            best.setdefault(point.sequence, point)
    return sorted(best.values(), key=lambda hit: (-hit.score, -hit.ts_us))


def _is_within(ts_us: int, narrowed: Filter) -> bool:
    since, until = narrowed.since_us, narrowed.until_us
    return (since is None or since <= ts_us) and (until is None or ts_us < until)


def _cut(hits: list[VectorHit], limit: int) -> list[VectorHit]:
    if len(hits) <= limit:
        return hits
    worst = hits[limit - 1].score
    return [hit for hit in hits if hit.score >= worst]
