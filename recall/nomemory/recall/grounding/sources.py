"""Ids of the messages that a statement cites, and of their retractions."""

from __future__ import annotations

from nomemory.recall.model.evidence import RetrievedMessages
from nomemory.recall.model.memory_view import (
    Statement,
)


def get_cited_message_ids(statement: Statement) -> frozenset[str]:
    """Return the ids of the messages that a statement cites."""
    return frozenset(citation.message_id for citation in statement.citations)


def get_retracting_message_ids(statement: Statement, retrieval: RetrievedMessages) -> list[str]:
    """Return one id for each cited message: the id of the message that retracts it, or an empty string."""
    cited = (retrieval.get_message(message_id) for message_id in sorted(get_cited_message_ids(statement)))
    return [message.retracted_by for message in cited if message]
