"""Parse the arguments of tool calls. Error messages never quote argument values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import TypeVar

from pydantic import (
    BaseModel,
    ValidationError,
)

from nomemory.recall.errors import RecallError
from nomemory.recall.model.step import JsonValue
from nomemory.recall.tools.arguments import ArgumentObject

_Arguments = TypeVar("_Arguments", bound=ArgumentObject)


class InvalidToolCallError(RecallError):
    """A tool call is invalid. The error message is meant for the planner, and quotes no argument values."""


def parse_arguments(model: type[_Arguments], arguments: Mapping[str, object], zone: tzinfo | None) -> _Arguments:
    """Parse the arguments of a tool call. Times without an offset are in `zone`. Unknown arguments are ignored.

    Raises:
        InvalidToolCallError: an argument is missing or invalid. The error message names the argument.
    """
    try:
        return model.model_validate(arguments, context={"zone": zone})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        names = [part for part in first["loc"] if isinstance(part, str)]
        raise InvalidToolCallError(": ".join((*names, first["msg"]))) from None


def find_unknown_arguments(model: type[BaseModel], arguments: Mapping[str, JsonValue], path: str = "") -> Iterator[str]:
    """Yield the names of arguments, at any depth, that the tool does not have."""
    for name, value in arguments.items():
        field = model.model_fields.get(name)
        if field is None:
            yield f"{path}{name}"
        elif isinstance(value, dict) and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from find_unknown_arguments(field.annotation, value, f"{path}{name}.")
