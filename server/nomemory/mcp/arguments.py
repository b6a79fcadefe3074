"""Argument models of the MCP tools, with their descriptions for models.

A description states the purpose, the default and the limits of an argument, because not every client shows the JSON
schema.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from nomemory.recall.tools.arguments import (
    EXCLUDED_CONVERSATIONS_MAX,
    ArgumentObject,
    Cosine,
    Cursor,
    Identifier,
    Instant,
    PageSize,
    QueryText,
    Reach,
    TopK,
    Vector,
)

FORGOTTEN_MAX: Final = 100
"""Maximum number of messages that one call of `forget` deletes."""

_TIME: Final = "An ISO 8601 time such as 2026-01-31T09:00:00Z; UTC if it has no offset."
_ID: Final = "At most 128 characters."
_PAGE_SIZE: Final = "Maximum number of messages per page, 1 to 500. Default: 50."
_CURSOR: Final = (
    "The next_cursor of the previous page, unchanged; at most 8,000 characters. Repeat the other arguments. Default: "
    "the first page."
)
_TOP_K: Final = "Maximum number of messages, 1 to 200. Default: 20."
_TIME_ZONE: Final = "IANA time zone of the user, such as Asia/Shanghai; at most 64 characters."
_QUERY_LIMIT: Final = "At most 32,000 characters."


def _to_lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


MessageRole = Annotated[Literal["user", "assistant", "system", "tool"], BeforeValidator(_to_lower_case)]
ZoneName = Annotated[str, Field(max_length=64)]
Content = Annotated[str, Field(min_length=1, max_length=262_144)]


class QueryArguments(ArgumentObject):
    """Base class of arguments that begin with `query`."""

    query: QueryText


class FilterArguments(ArgumentObject):
    """The filter of a search or a listing, as top-level arguments."""

    since: Instant | None = Field(
        default=None, description=f"Return only messages from this time on. {_TIME} Default: no limit."
    )
    until: Instant | None = Field(
        default=None, description=f"Return only messages before this time. {_TIME} Default: no limit."
    )
    role: MessageRole | None = Field(
        default=None, description="Return only messages of authors with this role. Default: all roles."
    )
    conversation_id: Identifier = Field(
        default="", description=f"Return only messages of this conversation. {_ID} Default: all conversations."
    )
    exclude_conversation_ids: list[Identifier] = Field(
        default=[],
        max_length=EXCLUDED_CONVERSATIONS_MAX,
        description=f"Ids of conversations to omit, at most {EXCLUDED_CONVERSATIONS_MAX} of 128 characters each. "
        "Default: none.",
    )


class RecallArguments(ArgumentObject):
    """Arguments of `recall`."""

    query: QueryText = Field(description=f"The question, in the user's own words; Chinese or English. {_QUERY_LIMIT}")
    since: Instant | None = Field(
        default=None,
        description=f"Search messages from this time on first. {_TIME} Default: the time that the question mentions.",
    )
    until: Instant | None = Field(
        default=None,
        description=f"Search messages before this time first. {_TIME} Default: the time that the question mentions.",
    )
    role: MessageRole | None = Field(
        default=None,
        description="Search messages of authors with this role first. Default: the role that the question mentions.",
    )
    conversation_id: Identifier = Field(
        default="", description=f"Search only this conversation. {_ID} Default: all conversations."
    )
    exclude_conversation_ids: list[Identifier] = Field(
        default=[],
        max_length=EXCLUDED_CONVERSATIONS_MAX,
        description=f"Ids of conversations that are not searched, at most {EXCLUDED_CONVERSATIONS_MAX} of 128 "
        "characters each. Default: none.",
    )
    time_zone: ZoneName = Field(
        default="", description=f"{_TIME_ZONE} Used for words such as 'yesterday' and for dates. Default: UTC."
    )
    skill: Identifier = Field(
        default="", description=f"Name of the recall skill. {_ID} Default: the server's default skill."
    )


class TurnArgument(ArgumentObject):
    """One turn of the current conversation."""

    role: MessageRole = Field(description="Role of the author.")
    text: str = Field(min_length=1, max_length=4_000, description="Text of the turn, 1 to 4,000 characters.")


class ContextArguments(ArgumentObject):
    """Arguments of `build_context`."""

    turns: list[TurnArgument] = Field(
        default=[],
        max_length=20,
        description="The latest turns of the current conversation, oldest first: at most 20 of 4,000 characters each. "
        "Default: the latest stored messages of conversation_id, which is then required.",
    )
    conversation_id: Identifier = Field(
        default="", description=f"Id of the current conversation, if it is stored. {_ID} Default: it is not stored."
    )
    max_tokens: int = Field(
        default=2_000,
        ge=100,
        le=32_000,
        description="Maximum size of the text, 100 to 32,000 tokens. Default: 2,000.",
    )
    time_zone: ZoneName = Field(default="", description=f"{_TIME_ZONE} Used for dates. Default: UTC.")
    exclude_conversation_ids: list[Identifier] = Field(
        default=[],
        max_length=EXCLUDED_CONVERSATIONS_MAX - 1,
        description="Ids of conversations that are not searched for related messages, at most "
        f"{EXCLUDED_CONVERSATIONS_MAX - 1} of 128 characters each. Default: none.",
    )


class SearchArguments(FilterArguments, QueryArguments):
    """Arguments of `search`."""

    query: QueryText = Field(description=f"A question or keywords. {_QUERY_LIMIT}")
    top_k: TopK = Field(default=20, description=_TOP_K)


class LexicalArguments(FilterArguments, QueryArguments):
    """Arguments of `lexical_search`."""

    query: QueryText = Field(
        description='Words and "exact phrases", combined with AND, OR, NOT and parentheses. Words without an operator '
        f"are alternatives. {_QUERY_LIMIT}"
    )
    page_size: PageSize = Field(default=50, description=_PAGE_SIZE)
    cursor: Cursor = Field(default="", description=_CURSOR)


class SemanticArguments(FilterArguments, QueryArguments):
    """Arguments of `semantic_search`: exactly one of `query` and `query_embedding`."""

    query: QueryText = Field(
        default="",
        description=f"Text with the meaning to search for. {_QUERY_LIMIT} Default: none; requires query_embedding.",
    )
    query_embedding: Vector = Field(
        default=(),
        description="A vector of the server's embedding dimension, 1 to 8,192 numbers, instead of query. Default: the "
        "server embeds query.",
    )
    top_k: TopK = Field(default=20, description=_TOP_K)
    min_score: Cosine | None = Field(
        default=None, description="Minimum cosine similarity, -1 to 1. Default: no minimum."
    )


class ListArguments(FilterArguments):
    """Arguments of `messages_list`."""

    page_size: PageSize = Field(default=50, description=_PAGE_SIZE)
    cursor: Cursor = Field(default="", description=_CURSOR)


class NeighborArguments(ArgumentObject):
    """Arguments of `neighbors`. For `before` and `after`, None selects the server's default."""

    message_id: Identifier = Field(description=f"Id of the message. {_ID}")
    before: Reach | None = Field(default=None, description="Number of messages before it, 0 to 200. Default: 20.")
    after: Reach | None = Field(default=None, description="Number of messages after it, 0 to 200. Default: 0.")


class RememberArguments(ArgumentObject):
    """Arguments of `remember`."""

    content: Content = Field(description="The message, word for word, not a summary: 1 to 262,144 bytes of UTF-8.")
    role: MessageRole = Field(default="user", description="Role of the author. Default: user.")
    said_at: Instant | None = Field(
        default=None, description=f"Time at which it was said. {_TIME} Default: the current time."
    )
    conversation_id: Identifier = Field(default="", description=f"Id of its conversation. {_ID} Default: none.")
    message_id: Identifier = Field(
        default="",
        description=f"Id of the message. A second call with the same id and content stores nothing. {_ID} Default: the "
        "server generates one.",
    )
    retracts: list[Identifier] = Field(
        default=[],
        max_length=32,
        description="Ids of earlier messages that this message corrects or withdraws, at most 32 of 128 characters "
        "each. Default: none.",
    )


class ForgetArguments(ArgumentObject):
    """Arguments of `forget`."""

    message_ids: list[Identifier] = Field(
        min_length=1,
        max_length=FORGOTTEN_MAX,
        description=f"Ids of the messages to delete, 1 to {FORGOTTEN_MAX} of 128 characters each.",
    )
