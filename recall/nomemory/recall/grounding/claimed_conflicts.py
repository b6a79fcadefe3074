"""Verify conflicts that a chat model reports between statements."""

from __future__ import annotations

from collections.abc import Iterable

from nomemory.recall.grounding.sources import get_cited_message_ids, get_retracting_message_ids
from nomemory.recall.model.evidence import RetrievedMessages
from nomemory.recall.model.memory_view import (
    DraftCitation,
    DraftConflict,
    MemoryView,
    Statement,
)

StatementTexts = tuple[str, str]
"""The texts of the earlier and the later statement. Statement texts are unique within a view."""


def verify_conflicts(
    claimed: Iterable[DraftConflict], view: MemoryView, retrieval: RetrievedMessages
) -> tuple[StatementTexts, ...]:
    """Return the distinct conflicts between verified statements that cite different messages."""
    pairs = (_verify_conflict(item, view.list_statements(), retrieval) for item in claimed)
    return tuple({frozenset(pair): pair for pair in pairs if pair}.values())


def _verify_conflict(
    claimed: DraftConflict, statements: tuple[Statement, ...], retrieval: RetrievedMessages
) -> StatementTexts | None:
    first = _find_cited_statement(claimed.first, statements, retrieval)
    second = _find_cited_statement(claimed.second, statements, retrieval)
    if first is None or second is None or get_cited_message_ids(first) == get_cited_message_ids(second):
        return None
    if any(all(get_retracting_message_ids(side, retrieval)) for side in (first, second)):
        return None
    earlier, later = sorted((first, second), key=_get_earliest_citation_key)
    return earlier.text, later.text


def _find_cited_statement(
    claimed: DraftCitation, statements: tuple[Statement, ...], retrieval: RetrievedMessages
) -> Statement | None:
    """Return the statement that cites the claimed message, preferably the claimed quote; None if no statement does."""
    message = retrieval.get_message(claimed.message_id)
    if message is None or claimed.quote not in message.content:
        return None
    citing = [
        (claimed.quote in citation.quote or citation.quote in claimed.quote, statement)
        for statement in statements
        for citation in statement.citations
        if citation.message_id == claimed.message_id
    ]
    return max(citing, key=lambda candidate: candidate[0])[1] if citing else None


def _get_earliest_citation_key(statement: Statement) -> tuple[float, str]:
    """Return the sort key for the earliest cited message."""
    return min((citation.ts.timestamp(), citation.message_id) for citation in statement.citations)
