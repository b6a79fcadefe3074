"""Order rule-based statements by relevance, and by time within one topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.recall.grounding.sources import sources
from nomemory.recall.model.evidence import Retrieval
from nomemory.recall.model.memory_view import Statement

SAME_MATTER: Final = 1.5
"""Minimum similarity for the same topic, in standard deviations above the mean of the hits."""

Ids = tuple[str, str]
"""The ids of two messages."""


def by_relevance(statements: Sequence[Statement], same: Iterable[Ids]) -> tuple[Statement, ...]:
    """Keep the order of the topics, and sort the statements of each topic newest first.

    Args:
        statements: most relevant first.
        same: pairs of messages about the same topic.
    """
    position = {message_id: at for at, item in reversed(list(enumerate(statements))) for message_id in sources(item)}
    pairs = [pair for pair in same if position.keys() >= set(pair)]
    for _ in pairs:  # Each iteration merges two connected groups.
        for earlier, later in pairs:
            position[earlier] = position[later] = min(position[earlier], position[later])
    return tuple(
        sorted(by_time(statements), key=lambda item: min(position[message_id] for message_id in sources(item)))
    )


def by_time(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Return the statements, newest first."""
    return tuple(sorted(statements, key=newest, reverse=True))


def newest(statement: Statement) -> tuple[float, bytes]:
    """Return the sort key for the latest cited message."""
    return max((citation.ts.timestamp(), citation.message_id.encode()) for citation in statement.citations)


def retractions(retrieval: Retrieval) -> Iterable[Ids]:
    """Return pairs of a retracted and a retracting message."""
    return [(message.message_id, message.retracted_by) for message in retrieval if message.retracted_by]
