"""Reads a planner's arguments. Errors never quote them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from nomemory.recall.errors import RecallError
from nomemory.recall.model.trace import JsonValue
from nomemory.recall.tools.arguments import ZONE, ArgumentObject
from nomemory.recall.tools.schema import Schema, object_schema

NO_END: Final = "no_end"
"""The type of the error of a range of times that says neither of its ends."""

_Arguments = TypeVar("_Arguments", bound=ArgumentObject)


class ToolRefusedError(RecallError):
    """A call that cannot be made as asked. Its text is for the planner and quotes no argument."""


def known_arguments(model: type[ArgumentObject], given: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], int]:
    """Leave out the arguments that a tool does not have, at every level; return also how many were left out.

    Whole numbers that a double cannot hold become the greatest that it can: no tool takes that one either.
    """
    known: dict[str, JsonValue] = {}
    ignored = 0
    for name, value in given.items():
        field = model.model_fields.get(name)
        if field is None:
            ignored += 1
        elif isinstance(value, dict) and (nested := _nested(field.annotation)):
            known[name], more = known_arguments(nested, value)
            ignored += more
        else:
            known[name] = _in_doubles(value)
    return known, ignored


def read_arguments(model: type[_Arguments], given: Mapping[str, object], zone: tzinfo | None) -> _Arguments:
    """Read arguments; times without an offset are in `zone`, unknown arguments are not looked at.

    Raises:
        ToolRefusedError: one is missing or not what it should be; the text names it.
    """
    try:
        return model.model_validate(given, context={ZONE: zone})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ToolRefusedError(_refusal(first["type"], first["loc"], object_schema(model))) from None


def confined(
    model: type[ArgumentObject], arguments: Mapping[str, JsonValue], conversation_id: str
) -> Mapping[str, JsonValue]:
    """Return arguments as they are shown: with the conversation to which the recall is confined."""
    if not conversation_id:
        return arguments
    narrowed = arguments.get("filter", {})
    if "filter" in model.model_fields and isinstance(narrowed, dict):
        return {
            **arguments,
            "filter": {**narrowed, "conversation_id": narrowed.get("conversation_id") or conversation_id},
        }
    return {**arguments, "conversation_id": conversation_id}


def _nested(annotation: object) -> type[ArgumentObject] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, ArgumentObject) else None


def _in_doubles(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _in_doubles(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_in_doubles(inner) for inner in value]
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return sys.float_info.max if value > 0 else -sys.float_info.max
    return value


def _refusal(type_: str, place: tuple[int | str, ...], schema: Schema) -> str:
    names = [part for part in place if isinstance(part, str)]
    if type_ == "missing":
        wanted = "is required"
    elif type_ == NO_END:
        wanted = "needs at least one of since and until"
    elif type_ == "int_from_float":
        wanted = "must be a whole number"
    elif len(names) < len(place):
        wanted = "must hold finite numbers only"
    else:
        wanted = _wanted(_property(schema, names))
    return ": ".join((*names, wanted))


def _property(schema: Any, names: list[str]) -> Any:  # noqa: ANN401 - any part of a schema
    for name in names:
        schema = schema["properties"][name]
    return schema


def _wanted(schema: Schema) -> str:
    """Say in words what the schema of an argument says."""
    match schema:
        case {"format": "date-time"}:
            return "must be an ISO 8601 time such as 2026-01-31T09:00:00Z"
        case {"enum": [*names]}:
            return f"must be one of {', '.join(map(str, names))}"
        case {"maxLength": most}:
            return f"must be a string of at most {most} characters"
        case {"minimum": int(least), "maximum": int(most)}:
            return f"must be a number from {least:g} to {most:g}"
        case {"maxItems": most}:
            return f"must be a list of 1 to {most} numbers"
        case _:
            return "must be an object"
