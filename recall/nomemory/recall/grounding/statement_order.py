"""Sort the statements of a memory view by relevance or by time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.recall.grounding.sources import get_cited_message_ids
from nomemory.recall.model.evidence import RetrievedMessages
from nomemory.recall.model.memory_view import Statement

MIN_SAME_TOPIC_Z_SCORE: Final = 1.5
"""Minimum similarity for the same topic, in standard deviations above the mean of the hits."""

MessageIdPair = tuple[str, str]
"""The ids of two messages."""


def sort_by_relevance(
    statements: Sequence[Statement], same_topic_pairs: Iterable[MessageIdPair]
) -> tuple[Statement, ...]:
    """Sort the statements of each topic by time, newest first. The topics keep their order.

    Args:
        statements: the statements, most relevant first.
        same_topic_pairs: pairs of ids of messages about the same topic.
    """
    position_by_id = {
        message_id: index
        for index, item in reversed(list(enumerate(statements)))
        for message_id in get_cited_message_ids(item)
    }
    pairs = [pair for pair in same_topic_pairs if position_by_id.keys() >= set(pair)]
    for _ in pairs:  # Repeated, to merge topics that are connected through other pairs.
        for earlier, later in pairs:
            position_by_id[earlier] = position_by_id[later] = min(position_by_id[earlier], position_by_id[later])
    return tuple(
        sorted(
            sort_by_time(statements),
            key=lambda item: min(position_by_id[message_id] for message_id in get_cited_message_ids(item)),
        )
    )


def sort_by_time(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Sort statements by the time of their latest cited message, newest first."""
    return tuple(sorted(statements, key=get_latest_citation_key, reverse=True))


def get_latest_citation_key(statement: Statement) -> tuple[float, bytes]:
    """Return the sort key for the latest cited message."""
    return max((citation.ts.timestamp(), citation.message_id.encode()) for citation in statement.citations)


def find_retractions(retrieval: RetrievedMessages) -> Iterable[MessageIdPair]:
    """Return pairs of ids: a retracted message, and the message that retracts it."""
    return [(message.message_id, message.retracted_by) for message in retrieval if message.retracted_by]
