"""Convert the nearest points of an engine to ranked messages.

A message has a point for each part of its text, and is ranked by its best part. The ranked messages include all ties
with the last message, for which more points may be needed. Callers start with `compute_initial_point_limit` points, and
multiply the number of points by `GROWTH` until `rank_messages` returns a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from nomemory.server.message_filter import Filter
from nomemory.server.search.semantic.protocol import VectorHit

GROWTH: Final = 4
_MARGIN: Final = 16

_SCORE, _TIME, _SEQUENCE = attrgetter("score"), attrgetter("ts_us"), attrgetter("sequence")


def compute_initial_point_limit(limit: int) -> int:
    """Return how many points to request first if `limit` messages are needed."""
    return limit + limit // 2 + _MARGIN


def rank_messages(points: Sequence[VectorHit], point_limit: int, filters: Filter, limit: int) -> list[VectorHit] | None:
    """Return messages by score and `ts`, descending; None if more points are needed.

    Args:
        points: the nearest points, best first, with ties in undefined order; fewer than `point_limit` only if there
            are no more.
        point_limit: the number of points that were requested from the engine.
        filters: the filter of the search, whose exact time bounds are applied here.
        limit: the number of messages to return. Messages that tie with the last one are returned in addition.
    """
    points = _clamp_scores(points)
    if len(points) < point_limit:
        return _truncate_after_ties(_rank_by_message(points, filters), limit)
    last = points[-1].score
    complete = [point for point in points if point.score > last]  # there may be more ties beyond the limit
    messages = _rank_by_message(complete, filters)
    return _truncate_after_ties(messages, limit) if len(messages) >= limit else None


def _clamp_scores(points: Sequence[VectorHit]) -> Sequence[VectorHit]:
    """Clamp scores to [-1, 1], which rounding errors can exceed."""
    if not points or (points[0].score <= 1.0 and points[-1].score >= -1.0):  # sorted by score, descending
        return points
    return [VectorHit(max(-1.0, min(1.0, point.score)), point.ts_us, point.sequence) for point in points]


def _rank_by_message(points: Sequence[VectorHit], filters: Filter) -> list[VectorHit]:
    if filters.since_us is not None or filters.until_us is not None:
        points = [point for point in points if _is_in_range(point.ts_us, filters)]
    if len(set(map(_SEQUENCE, points))) < len(points):
        points = _keep_best_parts(points)
    newest_first = sorted(points, key=_TIME, reverse=True)
    return sorted(newest_first, key=_SCORE, reverse=True)


def _keep_best_parts(points: Sequence[VectorHit]) -> list[VectorHit]:
    best: dict[int, VectorHit] = {}
    for point in points:
        best.setdefault(point.sequence, point)
    return list(best.values())


def _is_in_range(ts_us: int, filters: Filter) -> bool:
    since, until = filters.since_us, filters.until_us
    return (since is None or since <= ts_us) and (until is None or ts_us < until)


def _truncate_after_ties(hits: list[VectorHit], limit: int) -> list[VectorHit]:
    if len(hits) <= limit:
        return hits
    worst = hits[limit - 1].score
    return [hit for hit in hits if hit.score >= worst]
