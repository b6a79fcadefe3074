"""Parse a chat model's answer: a memory view, or follow-up searches. The models define the schema and the validation.

The schema is strict, but parsing is lenient: simple models may write a string for a statement or citation, or a single
call instead of a list. Invalid entries are dropped. Valid entries are still verified later.
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

from nomemory.recall.llm.json_answer import BadAnswerError, JsonObject, object_in
from nomemory.recall.model.memory_view import Draft, DraftCitation, DraftConflict, DraftStatement, Section, Verdict
from nomemory.recall.model.step import JsonValue
from nomemory.recall.planning.base import ToolCall
from nomemory.recall.tools.argument_parsing import ToolRefusedError, read_arguments
from nomemory.recall.tools.argument_schema import Schema, object_schema
from nomemory.recall.tools.arguments import (
    ArgumentObject,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    OneRole,
    QueryText,
    SearchFilter,
    TopK,
    Window,
)
from nomemory.recall.tools.definitions import LEXICAL_SEARCH, MESSAGES_LIST, NEIGHBORS, SEMANTIC_SEARCH
from nomemory.recall.tools.identity_guard import without_identity

LOOK_UPS_MAX: Final = 3
STATEMENTS_MAX: Final = 12
CITATIONS_MAX: Final = 12
CONFLICTS_MAX: Final = 8
EQUATIONS_MAX: Final = 4
VERDICTS: Final = tuple(item.value for item in (Verdict.SUPPORTED, Verdict.CONFLICTING, Verdict.INSUFFICIENT))
_TEXT_CHARS: Final = 500
_LABEL_CHARS: Final = 256
_QUOTE_CHARS: Final = 2_000
_THOUGHT_CHARS: Final = 300
_EQUATION_CHARS: Final = 200
_INTEGER_MOST: Final = 10**15 - 1
"""Maximum integer: any 15-digit integer survives a conversion to double."""

_Entry = TypeVar("_Entry", bound=BaseModel)


def kept(model: type[_Entry], most: int) -> Callable[[object], list[_Entry]]:
    """Return a list parser that keeps the first valid entries of a model."""

    def read(values: object) -> list[_Entry]:
        listed = values if isinstance(values, list) else []
        return [item for value in listed[:most] for item in _valid(model, value)]

    return read


def _valid(model: type[_Entry], value: object) -> list[_Entry]:
    try:
        return [model.model_validate(value)]
    except (ValidationError, RecursionError):
        return []


def _list_schema(items: Schema, most: int, least: int = 0) -> Schema:
    return {"type": "array", "items": items, **({"minItems": least} if least else {}), "maxItems": most}


def _first_citation(side: object) -> object:
    """Return the first citation of a statement; other values unchanged."""
    cited = side.get("citations") if isinstance(side, dict) else None
    return cited[0] if isinstance(cited, list) and cited else side


def _verdict(value: object) -> Verdict | None:
    """Return the verdict with this name; None leaves the decision to the rules."""
    said = value.strip().lower() if isinstance(value, str) else ""
    return Verdict(said) if said in VERDICTS else None


def _equations(value: object) -> list[str]:
    """Return the equations of a statement. A single equation may come without a list; invalid entries are dropped."""
    listed = value if isinstance(value, list) else [value]
    return [item for item in listed[:EQUATIONS_MAX] if isinstance(item, str) and 0 < len(item) <= _EQUATION_CHARS]


def _wrapped(key: str) -> Callable[[object], object]:
    """Return a parser that wraps a string in an object with one key."""
    return lambda value: {key: value} if isinstance(value, str) else value


class _Part(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)


class CitationPart(_Part):
    """A citation: a message label, and the words of the message that support a statement."""

    model_config = ConfigDict(json_schema_extra={"required": ["message_id", "quote"]}, str_strip_whitespace=False)

    message_id: str = Field(min_length=1, max_length=_LABEL_CHARS, description="the id of a message that was shown")
    quote: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = Field(
        "", max_length=_QUOTE_CHARS, description="words of that message, copied exactly"
    )

    _as_object = model_validator(mode="before")(_wrapped("message_id"))


class StatementPart(_Part):
    """One line of the view."""

    model_config = ConfigDict(json_schema_extra={"required": ["text", "citations"]})

    text: str = Field(min_length=1, max_length=_TEXT_CHARS)
    citations: Annotated[
        list[CitationPart],
        BeforeValidator(kept(CitationPart, CITATIONS_MAX)),
        WithJsonSchema(_list_schema(object_schema(CitationPart), CITATIONS_MAX, least=1)),
    ] = []
    computed: Annotated[
        list[str],
        BeforeValidator(_equations),
        WithJsonSchema(_list_schema({"type": "string", "maxLength": _EQUATION_CHARS}, EQUATIONS_MAX)),
    ] = []

    _as_object = model_validator(mode="before")(_wrapped("text"))


class ConflictPart(_Part):
    """Two conflicting citations. A pair may be a list, and a side may be a statement."""

    earlier: Annotated[CitationPart, BeforeValidator(_first_citation)]
    later: Annotated[CitationPart, BeforeValidator(_first_citation)]

    @model_validator(mode="before")
    @classmethod
    def _as_object(cls, given: object) -> object:
        return dict(zip(("earlier", "later"), given, strict=False)) if isinstance(given, list) else given


_Statements = Annotated[
    list[StatementPart],
    BeforeValidator(kept(StatementPart, STATEMENTS_MAX)),
    WithJsonSchema(_list_schema(object_schema(StatementPart), STATEMENTS_MAX)),
]


_Times = TypeVar("_Times", Window, ListArguments)


def _with_an_end(times: _Times) -> _Times:
    if times.since is None and times.until is None:
        raise PydanticCustomError("no_end", "needs at least one of since and until")
    return times


class _Explicit(Window):
    """A time range with at least one explicit bound."""

    model_config = ConfigDict(json_schema_extra={"required": ["until"]})

    _has_an_end = model_validator(mode="after")(_with_an_end)


class _ExplicitFilter(SearchFilter):
    """A filter with explicit role and time range."""

    role: OneRole = Field(description="whose messages; any: anybody's")
    time_range: _Explicit = Field(description="when it was said; for all of it give until alone")


class _ListLookUp(ListArguments):
    """Arguments of a listing with explicit role and end."""

    model_config = ConfigDict(json_schema_extra={"required": ["role", "until"]})

    role: OneRole = Field(description="whose messages; any: anybody's")

    _has_an_end = model_validator(mode="after")(_with_an_end)


class _WordsLookUp(LexicalArguments):
    filter: _ExplicitFilter = Field(description="what to narrow the search to")


class _MeaningLookUp(ArgumentObject):
    query_text: QueryText = Field(description="what to look for, in plain words")
    filter: _ExplicitFilter = Field(description="what to narrow the search to")
    top_k: TopK = Field(default=20, description="how many messages at most")


LOOK_UPS: Final[Mapping[str, type[ArgumentObject]]] = MappingProxyType(
    {
        MESSAGES_LIST: _ListLookUp,
        LEXICAL_SEARCH: _WordsLookUp,
        SEMANTIC_SEARCH: _MeaningLookUp,
        NEIGHBORS: NeighborArguments,
    }
)
"""The tools that a model may call, with all filter arguments required."""


def _look_up_schema() -> Schema:
    calls: list[JsonValue] = [
        {
            "type": "object",
            "properties": {"tool": {"enum": [tool]}, "args": object_schema(arguments)},
            "required": ["tool", "args"],
            "additionalProperties": False,
        }
        for tool, arguments in LOOK_UPS.items()
    ]
    return _list_schema({"anyOf": calls}, LOOK_UPS_MAX)


class AnswerPart(_Part):
    """A complete answer: a search request if `look_up` is set, otherwise the memory view."""

    model_config = ConfigDict(
        json_schema_extra={
            "required": ["stop", "look_up", "verdict", *(section.value for section in Section), "conflicts"]
        }
    )

    thought: Annotated[str, BeforeValidator(lambda value: value[:_THOUGHT_CHARS])] = Field(
        "", max_length=_THOUGHT_CHARS, description="why, in one short sentence"
    )
    stop: bool = Field(default=True, strict=True, description="false: look up first")
    look_up: Annotated[list[dict[str, Any]], WithJsonSchema(_look_up_schema())] = []
    verdict: Annotated[
        Verdict | None, BeforeValidator(_verdict), WithJsonSchema({"type": "string", "enum": list(VERDICTS)})
    ] = None
    preferences: _Statements = []
    profile: _Statements = []
    constraints: _Statements = []
    conflicts: Annotated[
        list[ConflictPart],
        BeforeValidator(kept(ConflictPart, CONFLICTS_MAX)),
        WithJsonSchema(_list_schema(object_schema(ConflictPart), CONFLICTS_MAX)),
    ] = []

    @model_validator(mode="before")
    @classmethod
    def _with_one_call(cls, given: JsonObject) -> JsonObject:
        """Accept a single top-level call: `{"stop": false, "tool": "…", "args": {…}}`."""
        if given.get("tool"):
            return {**given, "look_up": [{"tool": given["tool"], "args": given.get("args")}]}
        return given


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer: `calls` to make first, or the draft of a view."""

    draft: Draft
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""


_KEYS: Final = {"stop", "look_up", "verdict", *(section.value for section in Section)}


@cache
def answer_schema() -> Schema:
    """Return the JSON schema of an answer. The result is cached and must not be modified."""
    return object_schema(AnswerPart)


def answer_in(text: str, named: Callable[[str], str], zone: tzinfo | None) -> Answer:
    """Parse a model's answer.

    Args:
        text: the complete response.
        named: returns the message id of a label.
        zone: time zone of times without an offset.

    Raises:
        BadAnswerError: the text has no valid object, or a call in it is invalid. The message quotes neither.
    """
    try:
        part = AnswerPart.model_validate(object_in(text, _KEYS))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"][0]
        raise BadAnswerError(f'"{first}" is not as the schema says.') from None
    calls = () if part.stop else tuple(_call(asked, named, zone) for asked in part.look_up[:LOOK_UPS_MAX])
    return Answer(_draft(part, named), tuple(replace(call, thought=part.thought) for call in calls), part.thought)


def _draft(part: AnswerPart, named: Callable[[str], str]) -> Draft:
    def citation(one: CitationPart) -> DraftCitation:
        return DraftCitation(named(one.message_id), one.quote)

    statements = tuple(
        DraftStatement(section, item.text, tuple(map(citation, item.citations)), tuple(item.computed))
        for section in Section
        for item in _section(part, section)
    )
    conflicts = tuple(
        DraftConflict(citation(conflict.earlier), citation(conflict.later)) for conflict in part.conflicts
    )
    return Draft(statements, part.verdict, conflicts, composed=True)


def _section(part: AnswerPart, section: Section) -> list[StatementPart]:
    return {
        Section.PREFERENCES: part.preferences,
        Section.PROFILE: part.profile,
        Section.CONSTRAINTS: part.constraints,
    }[section]


def _call(asked: JsonObject, named: Callable[[str], str], zone: tzinfo | None) -> ToolCall:
    """Validate a call before it is made.

    Raises:
        BadAnswerError: the tool is unknown or the arguments are invalid.
    """
    tool, arguments = asked.get("tool"), asked.get("args")
    if not isinstance(tool, str) or tool not in LOOK_UPS:
        raise BadAnswerError(f'"tool" has to be one of {", ".join(LOOK_UPS)}.')
    if not isinstance(arguments, dict):
        raise BadAnswerError(f'"args" of {tool} has to be an object with its arguments.')
    if any(abs(number) > _INTEGER_MOST for number in _integers(arguments)):
        raise BadAnswerError("An integer may have at most 15 digits.")
    if tool == NEIGHBORS and isinstance(label := arguments.get("message_id"), str):
        arguments = {**arguments, "message_id": named(label)}
    try:
        read_arguments(LOOK_UPS[tool], without_identity(arguments)[0], zone)
    except ToolRefusedError as refused:
        raise BadAnswerError(f"{tool}: {refused}.") from None
    return ToolCall(tool, arguments)


def _integers(whole: JsonValue) -> Iterator[int]:
    """Return the integers at every depth. The traversal is iterative because answers may be deeply nested."""
    left = [whole]
    while left:
        value = left.pop()
        if isinstance(value, int):
            yield value
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
