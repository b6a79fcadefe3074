"""Result models of the MCP tools. The output schemas are generated from these models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Result(BaseModel):
    """Base class of tool results."""

    model_config = ConfigDict(frozen=True)


class Message(Result):
    """A stored message."""

    message_id: str
    said_at: str = Field(description="RFC 3339 time")
    role: str
    name: str = ""
    conversation_id: str = ""
    content: str
    truncated: bool = Field(default=False, description="whether content is only a part of the message")
    score: float | None = None
    retracts: list[str] = Field(default=[], description="ids of the messages that it retracts")
    retracted_by: str = Field(default="", description="id of the message that retracts it: it no longer holds")
    superseded_by: str = Field(default="", description="id of a later message that replaces it: the later one holds")


class Messages(Result):
    """A page of messages."""

    messages: list[Message]
    next_cursor: str = Field(default="", description="pass it as `cursor` to get the next page; empty on the last page")
    index_lagging: bool = Field(default=False, description="whether the latest messages are not searchable yet")


class Quote(Result):
    """A verbatim quote of a message."""

    message_id: str
    quote: str
    said_at: str


class Statement(Result):
    """A statement of a memory view with its citations."""

    text: str
    citations: list[Quote]
    superseded_by: str = Field(default="", description="id of the later message that replaces or retracts it")
    attribution: str = Field(description="whose words: user, other or quoted")


class Conflict(Result):
    """Two statements that contradict each other."""

    earlier: Statement
    later: Statement
    possible: bool = Field(description="whether the conflict is uncertain")


class RecallOutput(Result):
    """The result of a recall."""

    verdict: Literal["supported", "possible", "conflicting", "insufficient", "pending"] = Field(
        description="whether the messages answer the question, as the server estimates"
    )
    preferences: list[Statement]
    profile: list[Statement]
    constraints: list[Statement]
    conflicts: list[Conflict]
    evidence: list[Message] = Field(description="the most relevant messages, best first")
    notes: list[str] = Field(description="explanations of the result")


class ContextOutput(Result):
    """The messages for a prompt."""

    recent: list[Message] = Field(description="the latest messages of the current conversation, oldest first")
    related: list[Message] = Field(description="related messages of other conversations, oldest first")
    token_count: int = Field(description="estimated number of tokens of the text")
    index_lagging: bool = Field(default=False, description="whether the latest messages are not searchable yet")


class RememberOutput(Result):
    """The outcome of storing a message."""

    message_id: str
    outcome: Literal["created", "unchanged"] = Field(
        description="created; unchanged: the same message was stored before"
    )


class ForgetOutput(Result):
    """The outcome of deleting messages."""

    deleted: int = Field(description="number of deleted messages")
    missing_message_ids: list[str] = Field(default=[], description="ids that this user has no message with")
