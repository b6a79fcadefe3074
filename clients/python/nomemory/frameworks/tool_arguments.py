"""Validate tool arguments against the JSON schema of the tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from nomemory.client import tool_results

Json = Mapping[str, Any]


class ToolCallError(Exception):
    """A tool call failed. The error message is meant for the model."""


def read_arguments(schema: Json, arguments: str | Json) -> dict[str, Any]:
    """Validate the arguments of a tool call, and convert times to datetimes.

    A time without a time zone is interpreted as UTC.

    Args:
        schema: the JSON schema of the arguments. The server checks minimum and maximum values.
        arguments: the arguments as an object or as JSON text. Null values are ignored.

    Raises:
        ToolCallError: the arguments do not match the schema.
    """
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise ToolCallError("not called: the arguments are not JSON") from None
    validated: dict[str, Any] = _validate_value(schema, arguments, "the arguments")
    return validated


_TYPES: Final[Mapping[str, tuple[str, type | tuple[type, ...]]]] = {
    "object": ("an object", Mapping),
    "array": ("an array", list),
    "string": ("a string", str),
    "integer": ("an integer", int),
    "number": ("a number", (int, float)),
}


def _validate_value(schema: Json, value: Any, name: str) -> Any:  # noqa: ANN401 - any JSON value
    if schema["type"] == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    _check_type(schema, value, name)
    if isinstance(value, Mapping):
        return _read_object(schema, value)
    if isinstance(value, list):
        return [_validate_value(schema["items"], item, f"items of {name}") for item in value]
    if isinstance(value, str):
        return _read_text(schema, value, name)
    return value


def _check_type(schema: Json, value: object, name: str) -> None:
    description, python_type = _TYPES[schema["type"]]
    if not isinstance(value, python_type) or isinstance(value, bool):
        raise ToolCallError(f"not called: {name} must be {description}")


def _read_object(schema: Json, value: Json) -> dict[str, Any]:
    arguments = {name: item for name, item in value.items() if item is not None}
    if unknown := sorted(arguments.keys() - schema["properties"].keys()):
        raise ToolCallError(f"not called: {tool_results.describe_unknown_arguments(unknown, schema['properties'])}")
    for name in schema["required"]:
        if name not in arguments:
            raise ToolCallError(f"not called: {name} is required")
    return {name: _validate_value(schema["properties"][name], item, name) for name, item in arguments.items()}


def _read_text(schema: Json, value: str, name: str) -> str | datetime:
    if schema.get("format") == "date-time":
        return _parse_time(value, name)
    if "enum" not in schema:
        return value
    if value.lower() not in schema["enum"]:
        raise ToolCallError(f"not called: {name} must be one of {', '.join(schema['enum'])}")
    return value.lower()


def _parse_time(value: str, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ToolCallError(f"not called: {name} must be an ISO 8601 time such as 2026-01-31T09:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
