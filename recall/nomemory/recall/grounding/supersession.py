"""Find superseded statements: a later message by the same sender has a similar meaning and shares rare terms."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from nomemory.recall.model.evidence import MessageRelation

MIN_SIMILARITY: Final = 2.25
"""Minimum similarity of two messages, in standard deviations above the mean of the hits."""


MIN_SHARED_TERMS: Final = 0.25
"""Minimum IDF-weighted share of words that both messages contain.

With a lower minimum, valid statements would be marked as superseded.
"""


def find_superseding_messages(relations: Iterable[MessageRelation], cited: Collection[str]) -> dict[str, str]:
    """Return a mapping from the id of a superseded message to the id of the latest message that supersedes it.

    Args:
        relations: pairs of related messages, ordered by the later message.
        cited: ids of the messages that the statements cite. Relations of other messages are ignored.
    """
    similar = [
        relation
        for relation in relations
        if relation.semantic_z_score >= MIN_SIMILARITY and relation.shared_term_share >= MIN_SHARED_TERMS
    ]
    return {item.earlier_id: item.later_id for item in similar if item.earlier_id in cited and item.later_id in cited}
