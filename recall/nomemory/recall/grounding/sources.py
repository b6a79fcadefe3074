"""The messages that a statement cites, and what retracted them."""

from __future__ import annotations

from nomemory.recall.model.evidence import Retrieval
from nomemory.recall.model.memory_view import (
    Statement,
)


def sources(statement: Statement) -> frozenset[str]:
    """Return the ids of the cited messages."""
    return frozenset(citation.message_id for citation in statement.citations)


def takers(statement: Statement, retrieval: Retrieval) -> list[str]:
    """Return what took back each message that a statement cites, by their ids; an empty text for one that holds."""
    cited = (retrieval.get(message_id) for message_id in sorted(sources(statement)))
    return [message.retracted_by for message in cited if message]
