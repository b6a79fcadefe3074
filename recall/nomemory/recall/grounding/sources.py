"""Ids of the messages that a statement cites, and of their retractions."""

from __future__ import annotations

from nomemory.recall.model.evidence import Retrieval
from nomemory.recall.model.memory_view import (
    Statement,
)


def cited_message_ids(statement: Statement) -> frozenset[str]:
    """Return the ids of the messages that a statement cites."""
    return frozenset(citation.message_id for citation in statement.citations)


def retracting_message_ids(statement: Statement, retrieval: Retrieval) -> list[str]:
    """Return one id for each cited message: the id of the message that retracts it, or an empty string."""
    cited = (retrieval.get(message_id) for message_id in sorted(cited_message_ids(statement)))
    return [message.retracted_by for message in cited if message]
