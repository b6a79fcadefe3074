"""The tools' arguments. They are read and described to models from these definitions; none names a user.

Reads a planner's arguments. Errors never quote them.

JSON schemas of pydantic's models, as chat models are shown them: without references, titles and defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from nomemory.recall.errors import RecallError
from nomemory.recall.model.question import Role
from nomemory.recall.model.result import JsonValue

_MAX_SINGLE: Final = 3.4028234663852886e38
"""The greatest number of single precision: what a vector is sent in."""


def _instant(value: object, info: ValidationInfo) -> datetime:
    """Read a time in ISO 8601, a date alone as its midnight; without an offset it is in the zone of the context."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (moment if moment.tzinfo else moment.replace(tzinfo=(info.context or {}).get("zone"))).astimezone(UTC)
    except (ValueError, OverflowError):
        raise PydanticCustomError("time", "must be an ISO 8601 time such as 2026-01-31T09:00:00Z") from None


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Instant = Annotated[datetime, BeforeValidator(_instant)]
OneRole = Annotated[
    Role, BeforeValidator(_lower), WithJsonSchema({"type": "string", "enum": [role.value for role in Role]})
]
QueryText = Annotated[str, Field(max_length=2_000)]
Cursor = Annotated[str, Field(max_length=8_000)]
Identifier = Annotated[str, Field(max_length=128)]
PageSize = Annotated[int, Field(ge=1, le=500)]
TopK = Annotated[int, Field(ge=1, le=200)]
Reach = Annotated[int, Field(ge=0, le=200)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Component = Annotated[float, Field(ge=-_MAX_SINGLE, le=_MAX_SINGLE), WithJsonSchema({"type": "number"})]
Vector = Annotated[tuple[Component, ...], Field(min_length=1, max_length=8_192)]


class ArgumentObject(BaseModel):
    """An object of arguments. Null is as good as absent; a string that holds an object as JSON is read, too."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _as_object(cls, given: object) -> object:
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                return given
        if isinstance(given, Mapping):
            return {name: value for name, value in given.items() if value is not None}
        return given


class Window(ArgumentObject):
    """A half-open range of times."""

    since: Instant | None = Field(default=None, description="start, included")
    until: Instant | None = Field(default=None, description="end, excluded")


class SearchFilter(ArgumentObject):
    """What a search is narrowed to."""

    role: OneRole | None = Field(default=None, description="whose messages; any: anybody's")
    time_range: Window = Field(default=Window(), description="when it was said")
    conversation_id: Identifier = Field(default="", description="one conversation only")


class ListArguments(Window):
    """Arguments of `messages_list`."""

    role: OneRole | None = Field(default=None, description="whose messages; any: anybody's")
    page_size: PageSize = Field(default=50, description="how many messages at most")
    cursor: Cursor = Field(default="", description="the next_cursor of the page before, unchanged")

    @property
    def filter(self) -> SearchFilter:
        """The role and the times as a filter."""
        return SearchFilter(role=self.role, time_range=Window(since=self.since, until=self.until))


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
    """Arguments of `neighbors`. None: as the host's budget says."""

    message_id: Identifier = Field(description="the message around which to look")
    before: Reach | None = Field(default=None, description="how many messages before it")
    after: Reach | None = Field(default=None, description="how many messages after it")


Arguments = ListArguments | LexicalArguments | SemanticArguments | HybridArguments | NeighborArguments
Schema = dict[str, JsonValue]
_DEFINITIONS = "#/$defs/"


@cache
def object_schema(model: type[BaseModel]) -> Schema:
    """Return the JSON schema of an object. It is shared: do not change it."""
    schema = model.model_json_schema(schema_generator=_Plain)
    definitions = schema.pop("$defs", {})
    inlined: Schema = _inlined(schema, definitions)
    return inlined


def _inlined(value: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401 - any part of a schema
    """Put definitions where they are referred to: simple models do not follow references."""
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref", "")
    whole = {**definitions.get(reference.removeprefix(_DEFINITIONS), {}), **value}
    return {key: _inlined(inner, definitions) for key, inner in whole.items() if key != "$ref"}


class _Plain(GenerateJsonSchema):
    """Describes only what a caller has to know."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        return {
            "type": "object",
            "properties": described["properties"],
            "required": described.get("required", []),
            "additionalProperties": False,
        }

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:  # noqa: ARG002 - the generator's signature
        return value

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - as above
        return False


_Arguments = TypeVar("_Arguments", bound=ArgumentObject)


class ToolRefusedError(RecallError):
    """A call that cannot be made as asked. Its text is for the planner and quotes no argument."""


def read_arguments(model: type[_Arguments], given: Mapping[str, object], zone: tzinfo | None) -> _Arguments:
    """Read arguments; times without an offset are in `zone`, unknown arguments are not looked at.

    Raises:
        ToolRefusedError: one is missing or not what it should be; the text names it.
    """
    try:
        return model.model_validate(given, context={"zone": zone})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        names = [part for part in first["loc"] if isinstance(part, str)]
        raise ToolRefusedError(": ".join((*names, first["msg"]))) from None


def unknown_arguments(model: type[BaseModel], given: Mapping[str, JsonValue], path: str = "") -> Iterator[str]:
    """Return the arguments that a tool does not have, at every level."""
    for name, value in given.items():
        field = model.model_fields.get(name)
        if field is None:
            yield f"{path}{name}"
        elif isinstance(value, dict) and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from unknown_arguments(field.annotation, value, f"{path}{name}.")
