"""The form of a point in every engine: its id, its payload, conditions of a search, and how points become messages.

Vectors are checked before an engine gets them: a rejected one would stay in its write-ahead log and come back.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from uuid import UUID, uuid5

from nomemory.server.embedding.vector import UnusableVectorError, Vector, l2_normalise
from nomemory.server.faults import Violation, invalid
from nomemory.server.message import Filter, marks_of
from nomemory.server.vector.protocol import VectorHit, VectorPoint

USER = "user_id"
MESSAGE = "message_id"
CONVERSATION = "conversation_id"
METADATA = "metadata"
"""The marks of the metadata's entries. Points of messages without metadata do not have it."""
ROLE = "role"
TIME = "ts"
SEQUENCE = "seq"

PART_BLOCK = 32
"""How many parts are looked for at once when a message's points are removed."""

_NAMESPACE = UUID("5b6ce0c4-8a0e-5d1c-9f0b-0d1f6f2f8a57")


@dataclass(frozen=True, slots=True)
class Match:
    """The field has exactly this value, or holds it among others."""

    field: str
    value: str | int


@dataclass(frozen=True, slots=True)
class Range:
    """The field lies between these bounds, `gte` included, `lt` not. None: no bound."""

    field: str
    gte: float | None
    lt: float | None


Condition = Match | Range


def point_id(user_id: str, message_id: str, part: int) -> UUID:
    """Name a point. Ids have no control characters, so that NUL keeps the three apart."""
    return uuid5(_NAMESPACE, f"{user_id}\0{message_id}\0{part}")


def part_blocks(user_id: str, message_id: str, from_part: int) -> Iterator[list[UUID]]:
    """Name a message's points from a part on, without end. Parts have no gaps: an empty block is the last."""
    while True:
        yield [point_id(user_id, message_id, part) for part in range(from_part, from_part + PART_BLOCK)]
        from_part += PART_BLOCK


def payload(point: VectorPoint) -> dict[str, str | int | list[str]]:
    """Return what is stored beside the vector."""
    marks: dict[str, list[str]] = {METADATA: list(point.marks)} if point.marks else {}
    return {
        USER: point.user_id,
        MESSAGE: point.message_id,
        CONVERSATION: point.conversation_id,
        ROLE: int(point.role),
        TIME: point.ts_us,
        SEQUENCE: point.sequence,
        **marks,
    }


def conditions(user_id: str, narrowed: Filter) -> tuple[Condition, ...]:
    """Narrow a search to one user, always, and to a filter.

    Engines compare times as 64-bit floats, which are coarser than a microsecond beyond the year 2255. The bounds are
    one step wide of the mark; `nearest` cuts exactly.
    """
    found: list[Condition] = [Match(USER, user_id)]
    if narrowed.role is not None:
        found.append(Match(ROLE, int(narrowed.role)))
    if narrowed.conversation_id:
        found.append(Match(CONVERSATION, narrowed.conversation_id))
    found += (Match(METADATA, mark) for mark in marks_of(narrowed.metadata))
    if narrowed.since_us is not None or narrowed.until_us is not None:
        found.append(Range(TIME, _step(narrowed.since_us, -math.inf), _step(narrowed.until_us, math.inf)))
    return tuple(found)


def _step(time_us: int | None, towards: float) -> float | None:
    return None if time_us is None else math.nextafter(float(time_us), towards)


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


def usable_query(vector: Vector, dimension: int) -> Vector:
    """Return a query's vector, of length one.

    Raises:
        Fault: INVALID_FIELD, if no cosine can be taken with it.
    """
    try:
        return l2_normalise(vector, dimension)
    except UnusableVectorError as error:
        raise invalid([Violation("query_embedding.values", str(error))]) from None


def usable_points(points: Sequence[VectorPoint], dimension: int) -> tuple[VectorPoint, ...]:
    """Return points with vectors of length one: all of them or none.

    Raises:
        Fault: INVALID_FIELD, naming each point whose vector cannot be used by its place.
    """
    usable, violations = [], []
    for place, point in enumerate(points):
        try:
            usable.append(replace(point, vector=l2_normalise(point.vector, dimension)))
        except UnusableVectorError as error:
            violations.append(Violation(f"points[{place}].vector", str(error)))
    if violations:
        raise invalid(violations)
    return tuple(usable)
