"""Verify conflicts that a chat model reports. Both sides must be verified statements."""

from __future__ import annotations

from collections.abc import Iterable

from nomemory.recall.grounding.sources import sources, takers
from nomemory.recall.model.evidence import Retrieval
from nomemory.recall.model.memory_view import (
    DraftCitation,
    DraftConflict,
    MemoryView,
    Statement,
)

Texts = tuple[str, str]
"""The texts of the earlier and the later statement. Statement texts are unique within a view."""


def surviving(claimed: Iterable[DraftConflict], view: MemoryView, retrieval: Retrieval) -> tuple[Texts, ...]:
    """Return the distinct conflicts between verified statements that cite different messages."""
    pairs = (_checked(item, view.statements(), retrieval) for item in claimed)
    return tuple({frozenset(pair): pair for pair in pairs if pair}.values())


def _checked(claimed: DraftConflict, statements: tuple[Statement, ...], retrieval: Retrieval) -> Texts | None:
    one = _citing(claimed.one, statements, retrieval)
    other = _citing(claimed.other, statements, retrieval)
    if one is None or other is None or sources(one) == sources(other):
        return None
    if any(all(takers(side, retrieval)) for side in (one, other)):
        return None
    earlier, later = sorted((one, other), key=_first_said)
    return earlier.text, later.text


def _citing(claimed: DraftCitation, statements: tuple[Statement, ...], retrieval: Retrieval) -> Statement | None:
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
    return max(citing, key=lambda found: found[0])[1] if citing else None


def _first_said(statement: Statement) -> tuple[float, str]:
    """Return the sort key for the earliest cited message."""
    return min((citation.ts.timestamp(), citation.message_id) for citation in statement.citations)
