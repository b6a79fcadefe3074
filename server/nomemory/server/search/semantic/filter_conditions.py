"""Convert the user and the filter of a search to conditions that every engine supports."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nomemory.server.message_filter import Filter
from nomemory.server.metadata_hashes import compute_entry_hashes
from nomemory.server.search.semantic.points import CONVERSATION, METADATA, ROLE, TIME, USER


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """The condition that a field, or one of its elements, equals a value."""

    field: str
    value: str | int


@dataclass(frozen=True, slots=True)
class ExclusionCondition:
    """The condition that a field equals none of the values, or is missing."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RangeCondition:
    """The condition that a field is at least `gte` and less than `lt`. None means unbounded."""

    field: str
    gte: float | None
    lt: float | None


Condition = MatchCondition | ExclusionCondition | RangeCondition


def build_filter_conditions(user_id: str, filters: Filter) -> tuple[Condition, ...]:
    """Return the conditions of a search. The first condition restricts the search to the user.

    Engines compare times as 64-bit floats, which cannot represent every microsecond after the year 2255. The time
    bounds are therefore extended by one float step, and `message_hits.rank_messages` applies the exact bounds.
    """
    result: list[Condition] = [MatchCondition(USER, user_id)]
    if filters.role is not None:
        result.append(MatchCondition(ROLE, int(filters.role)))
    if filters.conversation_id:
        result.append(MatchCondition(CONVERSATION, filters.conversation_id))
    if filters.exclude_conversation_ids:
        result.append(ExclusionCondition(CONVERSATION, filters.exclude_conversation_ids))
    result += (MatchCondition(METADATA, entry_hash) for entry_hash in compute_entry_hashes(filters.metadata))
    if filters.since_us is not None or filters.until_us is not None:
        result.append(
            RangeCondition(
                TIME, _get_next_float(filters.since_us, -math.inf), _get_next_float(filters.until_us, math.inf)
            )
        )
    return tuple(result)


def _get_next_float(time_us: int | None, towards: float) -> float | None:
    return None if time_us is None else math.nextafter(float(time_us), towards)
