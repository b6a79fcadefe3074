"""An independent check of the citations of a recall, without the verifier of the product."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from nomemory.recall.model.memory_view import Citation as DomainCitation
from nomemory.recall.model.memory_view import Statement as DomainStatement
from nomemory.recall.model.memory_view import VerifiedView
from nomemory.recall.model.result import RecallResult
from nomemory.v1 import recall_service_pb2


class Message(Protocol):
    """A stored or retrieved message."""

    @property
    def content(self) -> str: ...


Answer = recall_service_pb2.RecallResponse | RecallResult | VerifiedView
Statement = recall_service_pb2.Statement | DomainStatement
Citation = recall_service_pb2.Citation | DomainCitation


def check(answer: Answer, messages_by_id: Mapping[str, Message], retrieved: Collection[str] | None = None) -> list[str]:
    """Return the problems in the citations of an answer.

    `messages_by_id` are the messages of the bound user. `retrieved`, if known, are the ids that the tools of this
    recall returned.
    """
    view = answer.view if isinstance(answer, VerifiedView) else answer.memory_view
    statements: list[Statement] = [*view.preferences, *view.profile, *view.constraints]
    return [
        *(wrong for statement in statements for wrong in _in_statement(statement, messages_by_id, retrieved)),
        *_in_conflicts(answer, statements),
        *_in_evidence(answer, messages_by_id),
    ]


def _in_statement(
    statement: Statement, messages: Mapping[str, Message], retrieved: Collection[str] | None
) -> Iterator[str]:
    if not statement.text.strip():
        yield "a statement without words"
    if not statement.citations:
        yield f"no citation: {statement.text!r}"
    for citation in statement.citations:
        if wrong := _in_citation(citation, messages, retrieved):
            yield f"{wrong}: {citation.message_id} {citation.quote!r}"


def _in_citation(citation: Citation, messages: Mapping[str, Message], retrieved: Collection[str] | None) -> str:
    message = messages.get(citation.message_id)
    if message is None:
        return "not a message of this user"
    if retrieved is not None and citation.message_id not in retrieved:
        return "not retrieved in this recall"
    if not citation.quote:
        return "an empty quote"
    start, end = _span(citation)
    if message.content[start:end] != citation.quote or end - start != len(citation.quote):
        return "not the words at this span"
    if start != message.content.index(citation.quote):
        return "not the first place of these words"
    return ""


def _span(citation: Citation) -> tuple[int, int]:
    if isinstance(citation, DomainCitation):
        return citation.start, citation.end
    return citation.span.start, citation.span.end


def _in_conflicts(answer: Answer, statements: list[Statement]) -> Iterator[str]:
    for conflict in answer.conflicts:
        earlier, later = conflict.earlier, conflict.later
        if earlier not in statements or later not in statements or earlier == later:
            yield f"a conflict whose sides are not two statements of the view: {earlier.text!r} {later.text!r}"


def _in_evidence(answer: Answer, messages: Mapping[str, Message]) -> Iterator[str]:
    if isinstance(answer, VerifiedView):
        return
    for item in answer.evidence:
        stored = messages.get(item.message.message_id)
        if stored is None:
            yield f"evidence that is not a message of this user: {item.message.message_id}"
        elif not stored.content.startswith(item.message.content):
            yield f"evidence that is not verbatim: {item.message.message_id}"
