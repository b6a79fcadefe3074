"""Parse a chat model's answer, which is a memory view or a request for follow-up searches.

The pydantic classes define both the JSON schema for the model and the validation. The schema is strict, but parsing is
lenient: simple chat models may write a string for a statement or citation, or a single call instead of a list. Invalid
entries are dropped. Citations are verified later, in `grounding`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from nomemory.recall.llm.json_answer import InvalidAnswerError, JsonObject, extract_object
from nomemory.recall.model.memory_view import DraftCitation, DraftConflict, DraftStatement, DraftView, Section, Verdict
from nomemory.recall.model.step import JsonValue
from nomemory.recall.planning.base import ToolCall
from nomemory.recall.tools.argument_parsing import InvalidToolCallError, parse_arguments
from nomemory.recall.tools.argument_schema import Schema, build_object_schema
from nomemory.recall.tools.arguments import (
    ArgumentObject,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    OneRole,
    QueryText,
    SearchFilter,
    TimeWindow,
    TopK,
)
from nomemory.recall.tools.definitions import LEXICAL_SEARCH, MESSAGES_LIST, NEIGHBORS, SEMANTIC_SEARCH
from nomemory.recall.tools.identity_guard import remove_user_ids

MAX_LOOKUPS: Final = 3
MAX_STATEMENTS: Final = 12
MAX_CITATIONS: Final = 12
MAX_CONFLICTS: Final = 8
MAX_EQUATIONS: Final = 4
VERDICTS: Final = tuple(item.value for item in (Verdict.SUPPORTED, Verdict.CONFLICTING, Verdict.INSUFFICIENT))
_MAX_TEXT_CHARS: Final = 500
_MAX_LABEL_CHARS: Final = 256
_MAX_QUOTE_CHARS: Final = 2_000
_MAX_THOUGHT_CHARS: Final = 300
_MAX_EQUATION_CHARS: Final = 200
_MAX_INTEGER: Final = 10**15 - 1
"""Maximum integer. A double represents every integer of 15 digits exactly."""

_Entry = TypeVar("_Entry", bound=BaseModel)


def build_lenient_list_parser(model: type[_Entry], limit: int) -> Callable[[object], list[_Entry]]:
    """Return a list parser that reads at most `limit` entries and drops the entries that `model` rejects."""

    def parse_list(values: object) -> list[_Entry]:
        listed = values if isinstance(values, list) else []
        return [item for value in listed[:limit] for item in _parse_valid_item(model, value)]

    return parse_list


def _parse_valid_item(model: type[_Entry], value: object) -> list[_Entry]:
    try:
        return [model.model_validate(value)]
    except (ValidationError, RecursionError):
        return []


def _build_list_schema(items: Schema, max_items: int, min_items: int = 0) -> Schema:
    return {"type": "array", "items": items, **({"minItems": min_items} if min_items else {}), "maxItems": max_items}


def _take_first_citation(side: object) -> object:
    """Return the first citation if the value is a statement; otherwise return the value unchanged."""
    cited = side.get("citations") if isinstance(side, dict) else None
    return cited[0] if isinstance(cited, list) and cited else side


def _parse_verdict(value: object) -> Verdict | None:
    """Convert the name of a verdict; return None if the name is unknown."""
    name = value.strip().lower() if isinstance(value, str) else ""
    return Verdict(name) if name in VERDICTS else None


def _parse_equations(value: object) -> list[str]:
    """Return the valid equations in a list, or a single equation as a list."""
    listed = value if isinstance(value, list) else [value]
    return [item for item in listed[:MAX_EQUATIONS] if isinstance(item, str) and 0 < len(item) <= _MAX_EQUATION_CHARS]


def _parse_thought(value: object) -> str:
    """Return the beginning of a text, or an empty text for any other value."""
    return value[:_MAX_THOUGHT_CHARS] if isinstance(value, str) else ""


def _build_string_wrapper(key: str) -> Callable[[object], object]:
    """Return a parser that wraps a string in an object with one key."""
    return lambda value: {key: value} if isinstance(value, str) else value


class _ParsedObject(BaseModel):
    """Base class of the objects in a chat model's answer."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)


class ParsedCitation(_ParsedObject):
    """A citation: a message label, and the words of the message that support a statement."""

    model_config = ConfigDict(json_schema_extra={"required": ["message_id", "quote"]}, str_strip_whitespace=False)

    message_id: str = Field(min_length=1, max_length=_MAX_LABEL_CHARS, description="the id of a message that was shown")
    quote: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = Field(
        "", max_length=_MAX_QUOTE_CHARS, description="words of that message, copied exactly"
    )

    _accept_string = model_validator(mode="before")(_build_string_wrapper("message_id"))


class ParsedStatement(_ParsedObject):
    """A statement of the memory view, as written by a chat model."""

    model_config = ConfigDict(json_schema_extra={"required": ["text", "citations"]})

    text: str = Field(min_length=1, max_length=_MAX_TEXT_CHARS)
    citations: Annotated[
        list[ParsedCitation],
        BeforeValidator(build_lenient_list_parser(ParsedCitation, MAX_CITATIONS)),
        WithJsonSchema(_build_list_schema(build_object_schema(ParsedCitation), MAX_CITATIONS, min_items=1)),
    ] = []
    computed: Annotated[
        list[str],
        BeforeValidator(_parse_equations),
        WithJsonSchema(_build_list_schema({"type": "string", "maxLength": _MAX_EQUATION_CHARS}, MAX_EQUATIONS)),
    ] = []

    _accept_string = model_validator(mode="before")(_build_string_wrapper("text"))


class ParsedConflict(_ParsedObject):
    """Two conflicting citations.

    A chat model may write a list instead of an object, and statements instead of citations.
    """

    earlier: Annotated[ParsedCitation, BeforeValidator(_take_first_citation)]
    later: Annotated[ParsedCitation, BeforeValidator(_take_first_citation)]

    @model_validator(mode="before")
    @classmethod
    def _accept_list(cls, value: object) -> object:
        return dict(zip(("earlier", "later"), value, strict=False)) if isinstance(value, list) else value


_Statements = Annotated[
    list[ParsedStatement],
    BeforeValidator(build_lenient_list_parser(ParsedStatement, MAX_STATEMENTS)),
    WithJsonSchema(_build_list_schema(build_object_schema(ParsedStatement), MAX_STATEMENTS)),
]


_Times = TypeVar("_Times", TimeWindow, ListArguments)


def _require_time_bound(times: _Times) -> _Times:
    if times.since is None and times.until is None:
        raise PydanticCustomError("no_end", "needs at least one of since and until")
    return times


class _ExplicitTimeRange(TimeWindow):
    """A time range in which a chat model must set at least one bound."""

    model_config = ConfigDict(json_schema_extra={"required": ["until"]})

    _has_an_end = model_validator(mode="after")(_require_time_bound)


class _ExplicitFilter(SearchFilter):
    """A search filter in which a chat model must set the role and the time range."""

    role: OneRole = Field(description="whose messages; any: anybody's")
    time_range: _ExplicitTimeRange = Field(description="when it was said; for all of it give until alone")


class _ListLookupArguments(ListArguments):
    """Arguments of `messages_list` in which a chat model must set the role and a time bound."""

    model_config = ConfigDict(json_schema_extra={"required": ["role", "until"]})

    role: OneRole = Field(description="whose messages; any: anybody's")

    _has_an_end = model_validator(mode="after")(_require_time_bound)


class _LexicalLookupArguments(LexicalArguments):
    filter: _ExplicitFilter = Field(description="what to narrow the search to")


class _SemanticLookupArguments(ArgumentObject):
    query_text: QueryText = Field(description="what to look for, in plain words")
    filter: _ExplicitFilter = Field(description="what to narrow the search to")
    top_k: TopK = Field(default=20, description="how many messages at most")


LOOKUP_TOOLS: Final[Mapping[str, type[ArgumentObject]]] = MappingProxyType(
    {
        MESSAGES_LIST: _ListLookupArguments,
        LEXICAL_SEARCH: _LexicalLookupArguments,
        SEMANTIC_SEARCH: _SemanticLookupArguments,
        NEIGHBORS: NeighborArguments,
    }
)
"""The tools that a model may call, with all filter arguments required."""


def _build_lookup_schema() -> Schema:
    calls: list[JsonValue] = [
        {
            "type": "object",
            "properties": {"tool": {"enum": [tool]}, "args": build_object_schema(arguments)},
            "required": ["tool", "args"],
            "additionalProperties": False,
        }
        for tool, arguments in LOOKUP_TOOLS.items()
    ]
    return _build_list_schema({"anyOf": calls}, MAX_LOOKUPS)


class ParsedAnswer(_ParsedObject):
    """A complete answer of a chat model: follow-up searches if `stop` is false, otherwise a memory view."""

    model_config = ConfigDict(
        json_schema_extra={
            "required": ["stop", "look_up", "verdict", *(section.value for section in Section), "conflicts"]
        }
    )

    thought: Annotated[str, BeforeValidator(_parse_thought)] = Field(
        "", max_length=_MAX_THOUGHT_CHARS, description="why, in one short sentence"
    )
    stop: bool = Field(default=True, strict=True, description="false: look up first")
    look_up: Annotated[list[dict[str, Any]], WithJsonSchema(_build_lookup_schema())] = []
    verdict: Annotated[
        Verdict | None, BeforeValidator(_parse_verdict), WithJsonSchema({"type": "string", "enum": list(VERDICTS)})
    ] = None
    preferences: _Statements = []
    profile: _Statements = []
    constraints: _Statements = []
    conflicts: Annotated[
        list[ParsedConflict],
        BeforeValidator(build_lenient_list_parser(ParsedConflict, MAX_CONFLICTS)),
        WithJsonSchema(_build_list_schema(build_object_schema(ParsedConflict), MAX_CONFLICTS)),
    ] = []

    @model_validator(mode="before")
    @classmethod
    def _accept_single_call(cls, answer: JsonObject) -> JsonObject:
        """Move a single call at the top level, `{"tool": "…", "args": {…}}`, to `look_up`."""
        if answer.get("tool"):
            return {**answer, "look_up": [{"tool": answer["tool"], "args": answer.get("args")}]}
        return answer


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A chat model's answer: the draft of a memory view, or `calls` to make before the model answers again."""

    draft: DraftView
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""


_ANSWER_KEYS: Final = {"stop", "look_up", "verdict", *(section.value for section in Section)}


@cache
def build_answer_schema() -> Schema:
    """Return the JSON schema of a chat model's answer. The schema is cached; callers must not change it."""
    return build_object_schema(ParsedAnswer)


def parse_answer(text: str, message_id_of: Callable[[str], str], zone: tzinfo | None) -> ModelAnswer:
    """Parse a model's answer.

    Args:
        text: the complete response of the chat model.
        message_id_of: a function that returns the message id for a label such as `m1`.
        zone: time zone for times that have no offset.

    Raises:
        InvalidAnswerError: the text has no valid JSON object, or a call in the object is invalid. The error message
            does not quote the text.
    """
    try:
        part = ParsedAnswer.model_validate(extract_object(text, _ANSWER_KEYS))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InvalidAnswerError(f'"{first["loc"][0]}" does not match the schema: {first["msg"]}.') from None
    calls = () if part.stop else tuple(_parse_call(call, message_id_of, zone) for call in part.look_up[:MAX_LOOKUPS])
    return ModelAnswer(
        _build_draft_view(part, message_id_of),
        tuple(replace(call, thought=part.thought) for call in calls),
        part.thought,
    )


def _build_draft_view(part: ParsedAnswer, message_id_of: Callable[[str], str]) -> DraftView:
    def build_citation(citation_part: ParsedCitation) -> DraftCitation:
        return DraftCitation(message_id_of(citation_part.message_id), citation_part.quote)

    statements = tuple(
        DraftStatement(section, item.text, tuple(map(build_citation, item.citations)), tuple(item.computed))
        for section in Section
        for item in _get_section(part, section)
    )
    conflicts = tuple(
        DraftConflict(build_citation(conflict.earlier), build_citation(conflict.later)) for conflict in part.conflicts
    )
    return DraftView(statements, part.verdict, conflicts, is_model_written=True)


def _get_section(part: ParsedAnswer, section: Section) -> list[ParsedStatement]:
    return {
        Section.PREFERENCES: part.preferences,
        Section.PROFILE: part.profile,
        Section.CONSTRAINTS: part.constraints,
    }[section]


def _parse_call(call: JsonObject, message_id_of: Callable[[str], str], zone: tzinfo | None) -> ToolCall:
    """Validate a follow-up search, and return it as a tool call.

    Raises:
        InvalidAnswerError: the tool is unknown or the arguments are invalid.
    """
    tool, arguments = call.get("tool"), call.get("args")
    if not isinstance(tool, str) or tool not in LOOKUP_TOOLS:
        raise InvalidAnswerError(f'"tool" must be one of {", ".join(LOOKUP_TOOLS)}.')
    if not isinstance(arguments, dict):
        raise InvalidAnswerError(f'"args" of {tool} must be an object with the arguments of the tool.')
    if any(abs(number) > _MAX_INTEGER for number in _iterate_integers(arguments)):
        raise InvalidAnswerError("An integer may have at most 15 digits.")
    if tool == NEIGHBORS and isinstance(label := arguments.get("message_id"), str):
        arguments = {**arguments, "message_id": message_id_of(label)}
    try:
        parse_arguments(LOOKUP_TOOLS[tool], remove_user_ids(arguments)[0], zone)
    except InvalidToolCallError as refused:
        raise InvalidAnswerError(f"{tool}: {refused}.") from None
    return ToolCall(tool, arguments)


def _iterate_integers(root: JsonValue) -> Iterator[int]:
    """Yield the integers in a JSON value at any depth.

    The traversal is iterative because answers may be deeply nested.
    """
    pending = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, int):
            yield value
        elif isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
