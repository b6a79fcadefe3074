"""Helpers that create retrieved messages, rankings and findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from nomemory.recall.model.evidence import (
    Evidence,
    MessageRelation,
    RetrievedMessage,
    RetrievedMessages,
    SearchFindings,
)
from nomemory.recall.model.memory_view import DraftCitation, DraftStatement, DraftView, Section
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.sufficiency import Sufficiency

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def retrieved_message(
    message_id: str, content: str, days_ago: float = 10, role: Role = Role.USER, name: str = ""
) -> RetrievedMessage:
    """Return a message."""
    return RetrievedMessage(message_id, NOW - timedelta(days=days_ago), role, content, name)


def new_question(text: str, role: Role | None = None) -> Question:
    """Return a question."""
    return Question(text, NOW, role=role)


def ranking(*messages: RetrievedMessage, deviations: float = 2.0) -> tuple[Evidence, ...]:
    """Rank messages in the given order with equal similarity to the question."""
    return tuple(Evidence(message, 3.0 - rank / 10, deviations) for rank, message in enumerate(messages))


def findings(
    evidence: Sequence[Evidence], relations: Iterable[MessageRelation] = (), sufficiency: float | None = 0.9
) -> SearchFindings:
    """Return the result of a search."""
    retrieval = RetrievedMessages()
    retrieval.add_messages(item.message for item in evidence)
    estimate = None if sufficiency is None else Sufficiency(sufficiency, speaker_matched=False)
    return SearchFindings(tuple(evidence), retrieval, tuple(relations), estimate)


def quoting(*messages: RetrievedMessage) -> DraftView:
    """Return draft statements that quote complete messages."""
    cited = ((message.content, (DraftCitation(message.message_id, message.content),)) for message in messages)
    return DraftView(tuple(DraftStatement(Section.PROFILE, *item) for item in cited))
