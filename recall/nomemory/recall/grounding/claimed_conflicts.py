"""Verify conflicts that a chat model reports. Both sides must be verified statements."""

from __future__ import annotations

from collections.abc import Iterable

from nomemory.recall.grounding.sources import retracting_ids, sources
from nomemory.recall.model.evidence import Retrieval
from nomemory.recall.model.memory_view import (
    DraftCitation,
    DraftConflict,
    MemoryView,
    Statement,
)

Texts = tuple[str, str]
"""The texts of the earlier and the later statement. Statement texts are unique within a view."""


def verified_conflicts(claimed: Iterable[DraftConflict], view: MemoryView, retrieval: Retrieval) -> tuple[Texts, ...]:
    """Return the distinct conflicts between verified statements that cite different messages."""
    pairs = (_verified(item, view.statements(), retrieval) for item in claimed)
    return tuple({frozenset(pair): pair for pair in pairs if pair}.values())


def _verified(claimed: DraftConflict, statements: tuple[Statement, ...], retrieval: Retrieval) -> Texts | None:
    first = _cited_statement(claimed.first, statements, retrieval)
    second = _cited_statement(claimed.second, statements, retrieval)
    if first is None or second is None or sources(first) == sources(second):
        return None
    if any(all(retracting_ids(side, retrieval)) for side in (first, second)):
        return None
    earlier, later = sorted((first, second), key=_earliest)
    return earlier.text, later.text


def _cited_statement(
    claimed: DraftCitation, statements: tuple[Statement, ...], retrieval: Retrieval
) -> Statement | None:
    """Return the statement for a citation, preferring the same quote; None for an invalid quote."""
    message = retrieval.get(claimed.message_id)
    if message is None or claimed.quote not in message.content:
        return None
    citing = [
        (claimed.quote in citation.quote or citation.quote in claimed.quote, statement)
        for statement in statements
        for citation in statement.citations
        if citation.message_id == claimed.message_id
    ]
    return max(citing, key=lambda candidate: candidate[0])[1] if citing else None


def _earliest(statement: Statement) -> tuple[float, str]:
    """Return the sort key for the earliest cited message."""
    return min((citation.ts.timestamp(), citation.message_id) for citation in statement.citations)
