"""What the tools answer, as JSON. Their schemas are made from these definitions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import BaseModel, ConfigDict, Field

from nomemory.client.hits import lexical_hits
from nomemory.client.messages import role_name
from nomemory.v1 import ingest_service_pb2, message_pb2
from nomemory.v1 import query_service_pb2 as query
from nomemory.v1 import recall_service_pb2 as recall

CONTENT_CHARS: Final = 4_000
"""What is shown of a message in a list. The resource of the message has all of it."""


class Result(BaseModel):
    """What a tool answers."""

    model_config = ConfigDict(frozen=True)


class Message(Result):
    """One thing that was said, word for word."""

    message_id: str
    said_at: str = Field(description="RFC 3339")
    role: str
    name: str = ""
    conversation_id: str = ""
    content: str
    truncated: bool = Field(default=False, description="whether content was cut at its end")
    score: float | None = None


class Messages(Result):
    """Messages, and where to go on."""

    messages: list[Message]
    next_cursor: str = Field(default="", description="pass it on as `cursor` for the next page; empty: there is none")
    index_behind: bool = Field(default=False, description="whether messages were stored that cannot be found yet")


class Quote(Result):
    """An exact stretch of a message."""

    message_id: str
    quote: str
    said_at: str


class Statement(Result):
    """One line of a memory view, and what proves it."""

    text: str
    citations: list[Quote]
    superseded_by: str = Field(default="", description="the message that says anew what this one says")
    attribution: str = Field(description="whose words: user, other, quoted")


class Conflict(Result):
    """Two statements that cannot both hold."""

    earlier: Statement
    later: Statement
    possible: bool = Field(description="whether it is a guess")


class Recalled(Result):
    """What a recall found."""

    verdict: str = Field(description="supported, conflicting, insufficient or pending")
    preferences: list[Statement]
    profile: list[Statement]
    constraints: list[Statement]
    conflicts: list[Conflict]
    evidence: list[Message]
    notes: list[str]


class Remembered(Result):
    """What became of a message."""

    message_id: str
    outcome: str = Field(description="created, or unchanged: the very same was stored already")


def page(reply: query.ListMessagesResponse) -> Messages:
    """Show a page by time."""
    return Messages(messages=[message(one) for one in reply.items], next_cursor=reply.next_cursor)


def lexical_page(reply: query.LexicalSearchResponse) -> Messages:
    """Show a page of a search by words."""
    found = [message(hit.message, hit.score) for hit in lexical_hits(reply)]
    return Messages(messages=found, next_cursor=reply.next_cursor, index_behind=reply.index_behind)


def ranked(reply: query.HybridSearchResponse | query.SemanticSearchResponse) -> Messages:
    """Show what a search by meaning or by everything found."""
    found = [message(item.message, item.score) for item in reply.items]
    return Messages(messages=found, index_behind=reply.index_behind)


def around(reply: query.GetNeighborsResponse) -> Messages:
    """Show a neighbourhood."""
    return Messages(messages=[message(one) for one in reply.items])


def recalled(reply: recall.RecallResponse) -> Recalled:
    """Show a recall."""
    view = reply.memory_view
    return Recalled(
        verdict=_word(recall.Verdict.Name(reply.verdict)),
        preferences=_statements(view.preferences),
        profile=_statements(view.profile),
        constraints=_statements(view.constraints),
        conflicts=[
            Conflict(earlier=_statement(one.earlier), later=_statement(one.later), possible=one.possible)
            for one in reply.conflicts
        ],
        evidence=[message(one.message, one.score) for one in reply.evidence],
        notes=list(reply.limits.notes),
    )


def remembered(reply: ingest_service_pb2.WriteMessagesResponse) -> Remembered:
    """Show what a write of one message did."""
    (one,) = reply.results
    outcome = ingest_service_pb2.WriteOutcome.Name(one.outcome).removeprefix("WRITE_")
    return Remembered(message_id=one.message_id, outcome=_word(outcome))


def message(given: message_pb2.ChatMessage, score: float | None = None) -> Message:
    """Show a message; of a long one the beginning."""
    return Message(
        message_id=given.message_id,
        said_at=_instant(given.ts),
        role=role_name(given.role),
        name=given.name,
        conversation_id=given.conversation_id,
        content=given.content[:CONTENT_CHARS],
        truncated=len(given.content) > CONTENT_CHARS,
        score=score,
    )


def _statements(given: Iterable[recall.Statement]) -> list[Statement]:
    return [_statement(one) for one in given]


def _statement(given: recall.Statement) -> Statement:
    return Statement(
        text=given.text,
        citations=[
            Quote(message_id=one.message_id, quote=one.quote, said_at=_instant(one.ts)) for one in given.citations
        ],
        superseded_by=given.superseded_by,
        attribution=_word(recall.Attribution.Name(given.attribution)),
    )


def _instant(moment: Timestamp) -> str:
    return moment.ToDatetime(tzinfo=UTC).isoformat().replace("+00:00", "Z")


def _word(enum_name: str) -> str:
    """Return what an enum's value says, without the enum's name: VERDICT_SUPPORTED is `supported`."""
    return enum_name.partition("_")[2].lower()
