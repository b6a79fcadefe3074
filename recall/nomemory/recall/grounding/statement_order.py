"""Order the statements that rules quote: the most relevant first, and the newest first within one matter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.recall.grounding.sources import sources
from nomemory.recall.model.evidence import Retrieval
from nomemory.recall.model.memory_view import Statement

SAME_MATTER: Final = 1.5
"""Standard deviations that two messages must lie nearer to each other than what was found usually does."""

Ids = tuple[str, str]
"""Two messages, by their ids."""


def by_relevance(statements: Sequence[Statement], same: Iterable[Ids]) -> tuple[Statement, ...]:
    """Keep the order of matters, and put the newest first within each: what holds now stands before what held.

    Args:
        statements: the most relevant first.
        same: pairs of messages that speak of the same matter.
    """
    place = {message_id: at for at, one in reversed(list(enumerate(statements))) for message_id in sources(one)}
    pairs = [pair for pair in same if place.keys() >= set(pair)]
    for _ in pairs:  # each round joins what one pair more connects
        for earlier, later in pairs:
            place[earlier] = place[later] = min(place[earlier], place[later])
    return tuple(sorted(by_time(statements), key=lambda one: min(place[message_id] for message_id in sources(one))))


def by_time(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Put the newest first."""
    return tuple(sorted(statements, key=newest, reverse=True))


def newest(statement: Statement) -> tuple[float, bytes]:
    """Return when the last of what a statement cites was said, for sorting."""
    return max((citation.ts.timestamp(), citation.message_id.encode()) for citation in statement.citations)


def retractions(retrieval: Retrieval) -> Iterable[Ids]:
    """Return what was retracted, each with what retracted it."""
    return [(one.message_id, one.retracted_by) for one in retrieval if one.retracted_by]
