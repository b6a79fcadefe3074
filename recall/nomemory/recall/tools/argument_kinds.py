"""The kinds of argument that a tool takes: each gives its JSON schema and reads a value."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, fields
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nomemory.recall.model.question import Role
from nomemory.recall.model.trace import JsonValue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Schema = dict[str, JsonValue]

_KIND = "kind"
_REQUIRED = "required"
_MAX_SINGLE = 3.4028234663852886e38
"""The greatest number of single precision: what a vector is sent in."""
_DESCRIPTION = "description"
_Arguments = TypeVar("_Arguments", bound="DataclassInstance")


class ToolRefusedError(Exception):
    """A call that cannot be made as asked. Its text is for the planner and quotes no argument."""


class Kind(Protocol):
    """A kind of argument."""

    def schema(self) -> Schema:
        """Describe it as JSON schema."""

    def read(self, value: JsonValue, zone: tzinfo | None) -> object:
        """Read a value; times without a zone are of `zone`.

        Raises:
            ToolRefusedError: it is not of this kind; the text says what is wanted.
        """


@dataclass(frozen=True, slots=True)
class Text:
    """A string of limited length."""

    max_chars: int

    def schema(self) -> Schema:
        """Describe it as JSON schema."""
        return {"type": "string", "maxLength": self.max_chars}

    def read(self, value: JsonValue, zone: tzinfo | None) -> str:  # noqa: ARG002 - the protocol's signature
        """Read a string."""
        if not isinstance(value, str) or len(value) > self.max_chars:
            raise ToolRefusedError(f"must be a string of at most {self.max_chars} characters")
        return value


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant in ISO 8601; a date alone is its midnight."""

    def schema(self) -> Schema:
        """Describe it as JSON schema."""
        return {"type": "string", "format": "date-time"}

    def read(self, value: JsonValue, zone: tzinfo | None) -> datetime:
        """Read a time, in UTC."""
        try:
            moment = datetime.fromisoformat(value if isinstance(value, str) else "")
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
        except (ValueError, OverflowError):
            raise ToolRefusedError("must be an ISO 8601 time such as 2026-01-31T09:00:00Z") from None


@dataclass(frozen=True, slots=True)
class OneRole:
    """Whose messages."""

    def schema(self) -> Schema:
        """Describe it as JSON schema."""
        return {"type": "string", "enum": [role.value for role in Role]}

    def read(self, value: JsonValue, zone: tzinfo | None) -> Role:  # noqa: ARG002 - the protocol's signature
        """Read a role."""
        try:
            return Role(value.lower() if isinstance(value, str) else value)
        except ValueError:
            raise ToolRefusedError(f"must be one of {', '.join(role.value for role in Role)}") from None


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds, both included."""

    least: int
    most: int

    def schema(self) -> Schema:
        """Describe it as JSON schema."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def read(self, value: JsonValue, zone: tzinfo | None) -> int:
        """Read a whole number; 5.0 is one."""
        number = Real(self.least, self.most).read(value, zone)
        if not number.is_integer():
            raise ToolRefusedError("must be a whole number")
        return int(number)


@dataclass(frozen=True, slots=True)
class Real:
    """A number within bounds, both included."""

    least: float
    most: float

    def schema(self) -> Schema:
        """Describe it as JSON schema."""
        return {"type": "number", "minimum": self.least, "maximum": self.most}

    def read(self, value: JsonValue, zone: tzinfo | None) -> float:  # noqa: ARG002 - the protocol's signature
        """Read a number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.least <= value <= self.most:
            raise ToolRefusedError(f"must be a number from {self.least:g} to {self.most:g}")
        return float(value)


@dataclass(frozen=True, slots=True)
class Vector:
    """A list of finite numbers."""

    max_dimension: int

    def schema(self) -> Schema:
        """Describe it as JSON schema."""
        return {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": self.max_dimension}

    def read(self, value: JsonValue, zone: tzinfo | None) -> tuple[float, ...]:  # noqa: ARG002 - the protocol's signature
        """Read a vector."""
        if not isinstance(value, list) or not 0 < len(value) <= self.max_dimension:
            raise ToolRefusedError(f"must be a list of 1 to {self.max_dimension} numbers")
        return tuple(_finite(number) for number in value)


def _finite(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_SINGLE:
        raise ToolRefusedError("must hold finite numbers only")
    return float(value)


@dataclass(frozen=True, slots=True)
class Nested:
    """An object with arguments of its own; a string that holds one as JSON is read, too."""

    type: type[DataclassInstance]

    def schema(self) -> Schema:
        """Describe it as JSON schema."""
        return object_schema(self.type)

    def read(self, value: JsonValue, zone: tzinfo | None) -> DataclassInstance:
        """Read an object."""
        return read_object(self.type, _as_object(value), zone)


def _as_object(value: JsonValue) -> dict[str, JsonValue]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        raise ToolRefusedError("must be an object")
    return value


def argument(kind: Kind, description: str, *, required: bool = False) -> dict[str, object]:
    """Describe a field of a dataclass of arguments: what goes into its `metadata`."""
    return {_KIND: kind, _DESCRIPTION: description, _REQUIRED: required}


def object_schema(type_: type[DataclassInstance]) -> Schema:
    """Derive the JSON schema of a dataclass of arguments."""
    properties: dict[str, JsonValue] = {}
    for one in fields(type_):
        kind: Kind = one.metadata[_KIND]
        properties[one.name] = {**kind.schema(), "description": one.metadata[_DESCRIPTION]}
    required: list[JsonValue] = [one.name for one in fields(type_) if one.metadata[_REQUIRED]]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def known_arguments(type_: type[DataclassInstance], given: dict[str, JsonValue]) -> tuple[dict[str, JsonValue], int]:
    """Leave out what a dataclass of arguments does not have, at every level; returns how many were left out.

    Whole numbers that a double cannot hold become the greatest that it can: no kind takes that one either.
    """
    kinds: dict[str, Kind] = {one.name: one.metadata[_KIND] for one in fields(type_)}
    known: dict[str, JsonValue] = {}
    ignored = 0
    for name, value in given.items():
        kind = kinds.get(name)
        if kind is None:
            ignored += 1
        elif isinstance(kind, Nested) and isinstance(value, dict):
            known[name], more = known_arguments(kind.type, value)
            ignored += more
        else:
            known[name] = _in_doubles(value)
    return known, ignored


def _in_doubles(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _in_doubles(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_in_doubles(inner) for inner in value]
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return sys.float_info.max if value > 0 else -sys.float_info.max
    return value


def read_object(type_: type[_Arguments], given: dict[str, JsonValue], zone: tzinfo | None) -> _Arguments:
    """Read arguments; null is as good as absent, unknown ones are not looked at.

    Raises:
        ToolRefusedError: one is missing or not what it should be; the text names it.
    """
    values: dict[str, Any] = {}
    for one in fields(type_):
        value = given.get(one.name)
        if value is not None:
            values[one.name] = _read(one.name, one.metadata[_KIND], value, zone)
        elif one.metadata[_REQUIRED]:
            raise ToolRefusedError(f"{one.name}: is required")
    return type_(**values)


def _read(name: str, kind: Kind, value: JsonValue, zone: tzinfo | None) -> object:
    try:
        return kind.read(value, zone)
    except ToolRefusedError as refused:
        raise ToolRefusedError(f"{name}: {refused}") from None
