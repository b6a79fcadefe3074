"""Arguments of the search tools, with their descriptions for chat models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from nomemory.recall.model.question import Role

_MAX_SINGLE: Final = 3.4028234663852886e38
"""The largest single-precision float. Vector components are single-precision floats."""


def _parse_time(value: object, info: ValidationInfo) -> datetime:
    """Parse an ISO 8601 time.

    A date means midnight. A time without an offset is in the zone of the validation context.
    """
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (moment if moment.tzinfo else moment.replace(tzinfo=(info.context or {}).get("zone"))).astimezone(UTC)
    except (ValueError, OverflowError):
        raise PydanticCustomError("time", "must be an ISO 8601 time such as 2026-01-31T09:00:00Z") from None


def _to_lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Instant = Annotated[datetime, BeforeValidator(_parse_time)]
OneRole = Annotated[
    Role, BeforeValidator(_to_lower_case), WithJsonSchema({"type": "string", "enum": [role.value for role in Role]})
]
QueryText = Annotated[str, Field(max_length=32_000)]
Cursor = Annotated[str, Field(max_length=8_000)]
Identifier = Annotated[str, Field(max_length=128)]
PageSize = Annotated[int, Field(ge=1, le=500)]
TopK = Annotated[int, Field(ge=1, le=200)]
Reach = Annotated[int, Field(ge=0, le=200)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Component = Annotated[float, Field(ge=-_MAX_SINGLE, le=_MAX_SINGLE), WithJsonSchema({"type": "number"})]
Vector = Annotated[tuple[Component, ...], Field(min_length=1, max_length=8_192)]


class ArgumentObject(BaseModel):
    """Base class of tool arguments.

    Null means that an argument is missing. A string that contains a JSON object is parsed.
    """

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _parse_json_object(cls, value: object) -> object:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return value
        if isinstance(value, Mapping):
            return {name: argument for name, argument in value.items() if argument is not None}
        return value


class TimeWindow(ArgumentObject):
    """A time range that includes `since` and excludes `until`."""

    since: Instant | None = Field(default=None, description="start, included")
    until: Instant | None = Field(default=None, description="end, excluded")


EXCLUDED_CONVERSATIONS_MAX: Final = 16
"""Maximum number of excluded conversations in a filter."""


class SearchFilter(ArgumentObject):
    """A filter by time range, role and conversation."""

    role: OneRole | None = Field(default=None, description="whose messages; any: anybody's")
    time_range: TimeWindow = Field(default=TimeWindow(), description="when it was said")
    conversation_id: Identifier = Field(default="", description="one conversation only")
    exclude_conversation_ids: list[Identifier] = Field(
        default=[], max_length=EXCLUDED_CONVERSATIONS_MAX, description="conversations to leave out"
    )


class ListArguments(TimeWindow):
    """Arguments of `messages_list`."""

    role: OneRole | None = Field(default=None, description="whose messages; any: anybody's")
    page_size: PageSize = Field(default=50, description="how many messages at most")
    cursor: Cursor = Field(default="", description="the next_cursor of the page before, unchanged")

    @property
    def filter(self) -> SearchFilter:
        """The role and the time range of the listing as a search filter."""
        return SearchFilter(role=self.role, time_range=TimeWindow(since=self.since, until=self.until))


class LexicalArguments(ArgumentObject):
    """Arguments of `lexical_search`."""

    query_text: QueryText = Field(description='words, "phrases", AND, OR, NOT, ( )')
    filter: SearchFilter = Field(default=SearchFilter(), description="what to narrow the search to")
    page_size: PageSize = Field(default=50, description="how many messages at most")
    cursor: Cursor = Field(default="", description="the next_cursor of the page before, unchanged")


class SemanticArguments(ArgumentObject):
    """Arguments of `semantic_search`: exactly one of `query_text` and `query_embedding`."""

    query_text: QueryText = Field(default="", description="what to look for, in plain words")
    query_embedding: Vector = Field(default=(), description="a vector of the server's dimension, instead of query_text")
    filter: SearchFilter = Field(default=SearchFilter(), description="what to narrow the search to")
    top_k: TopK = Field(default=20, description="how many messages at most")
    min_score: Cosine | None = Field(default=None, description="least cosine")


class HybridArguments(ArgumentObject):
    """Arguments of `hybrid_search`."""

    query_text: QueryText = Field(description="a question, or words")
    filter: SearchFilter = Field(default=SearchFilter(), description="what to narrow the search to")
    top_k: TopK = Field(default=20, description="how many messages at most")


class NeighborArguments(ArgumentObject):
    """Arguments of `neighbors`. If `before` or `after` is None, the default of the budget applies."""

    message_id: Identifier = Field(description="the message around which to look")
    before: Reach | None = Field(default=None, description="how many messages before it")
    after: Reach | None = Field(default=None, description="how many messages after it")


Arguments = ListArguments | LexicalArguments | SemanticArguments | HybridArguments | NeighborArguments
