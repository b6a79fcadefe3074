"""Result models of the MCP tools. The output schemas are generated from them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Result(BaseModel):
    """Base class of tool results."""

    model_config = ConfigDict(frozen=True)


class Message(Result):
    """A stored message."""

    message_id: str
    said_at: str = Field(description="RFC 3339")
    role: str
    name: str = ""
    conversation_id: str = ""
    content: str
    truncated: bool = Field(default=False, description="whether content is only a part of what was said")
    score: float | None = None
    retracts: list[str] = Field(default=[], description="the messages that it takes back")
    retracted_by: str = Field(default="", description="the message that took it back; it holds no more")
    superseded_by: str = Field(default="", description="a later message that restates it with another value")


class Messages(Result):
    """A page of messages."""

    messages: list[Message]
    next_cursor: str = Field(default="", description="pass it on as `cursor` for the next page; empty: there is none")
    index_lagging: bool = Field(default=False, description="whether messages were stored that cannot be found yet")


class Quote(Result):
    """A verbatim quote of a message."""

    message_id: str
    quote: str
    said_at: str


class Statement(Result):
    """A statement of a memory view with its citations."""

    text: str
    citations: list[Quote]
    superseded_by: str = Field(default="", description="the message that says anew what this one says, or took it back")
    attribution: str = Field(description="whose words: user, other, quoted")


class Conflict(Result):
    """Two statements that cannot both hold."""

    earlier: Statement
    later: Statement
    possible: bool = Field(description="whether it is a guess")


class Recalled(Result):
    """The result of a recall."""

    verdict: str = Field(
        description="supported, possible, conflicting, insufficient or pending; an estimate of the server"
    )
    preferences: list[Statement]
    profile: list[Statement]
    constraints: list[Statement]
    conflicts: list[Conflict]
    evidence: list[Message]
    notes: list[str]


class Context(Result):
    """The messages for a prompt."""

    recent: list[Message] = Field(description="the latest messages of the running conversation, oldest first")
    related: list[Message] = Field(description="related messages of other conversations, oldest first")
    token_count: int = Field(description="tokens of the text, by an estimate")
    index_lagging: bool = Field(default=False, description="whether messages were stored that cannot be found yet")


class Remembered(Result):
    """The outcome of storing a message."""

    message_id: str
    outcome: str = Field(description="created, or unchanged: the very same was stored already")
