"""Argument models of `recall` and `remember`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from nomemory.recall.model.question import Role
from nomemory.recall.tools.arguments import (
    EXCLUDED_CONVERSATIONS_MAX,
    ArgumentObject,
    Identifier,
    Instant,
    OneRole,
    QueryText,
)

ZoneName = Annotated[str, Field(max_length=64)]


Content = Annotated[str, Field(min_length=1, max_length=262_144)]


class RecallArguments(ArgumentObject):
    """Arguments of `recall`."""

    question: QueryText = Field(description="a question about the user, in Chinese or English")
    since: Instant | None = Field(default=None, description="look first at what was said at this time or later")
    until: Instant | None = Field(default=None, description="look first at what was said before this time")
    role: OneRole | None = Field(default=None, description="look first at what this side said")
    time_zone: ZoneName = Field(default="", description="the user's time zone, such as Asia/Shanghai, for 'yesterday'")
    conversation_id: Identifier = Field(default="", description="look at one conversation only")
    exclude_conversation_ids: list[Identifier] = Field(
        default=[], max_length=EXCLUDED_CONVERSATIONS_MAX, description="conversations of which nothing is read"
    )
    skill: Identifier = Field(default="", description="the recall skill to search with; empty: the server's default")


def _reject_any_role(value: object) -> object:
    """Raise ValueError for the role `any`, which no message has."""
    if value in {Role.ANY, Role.ANY.value}:
        raise ValueError("must be the role of a message")
    return value


class TurnArgument(ArgumentObject):
    """One turn of the running conversation."""

    role: Annotated[OneRole, BeforeValidator(_reject_any_role)] = Field(description="who speaks")
    text: str = Field(min_length=1, max_length=4_000, description="what they say")


class ContextArguments(ArgumentObject):
    """Arguments of `build_context`."""

    turns: list[TurnArgument] = Field(
        default=[], max_length=20, description="the latest turns of the running conversation, oldest first"
    )
    conversation_id: Identifier = Field(default="", description="the running conversation, if it is stored")
    max_tokens: int = Field(default=2_000, ge=100, le=32_000, description="limit of the answer's text")
    time_zone: ZoneName = Field(default="", description="the user's time zone, such as Asia/Shanghai, for dates")
    exclude_conversation_ids: list[Identifier] = Field(
        default=[], max_length=EXCLUDED_CONVERSATIONS_MAX - 1, description="conversations without related messages"
    )


class RememberArguments(ArgumentObject):
    """Arguments of `remember`."""

    content: Content = Field(description="what was said, word for word; not a summary")
    role: Annotated[OneRole, BeforeValidator(_reject_any_role)] = Field(default=Role.USER, description="who said it")
    said_at: Instant | None = Field(default=None, description="when it was said; left out: now")
    conversation_id: Identifier = Field(default="", description="the conversation it belongs to")
    message_id: Identifier = Field(default="", description="an id of your own: the same id twice is stored once")
    retracts: list[Identifier] = Field(default=[], max_length=32, description="ids of messages that it takes back")
