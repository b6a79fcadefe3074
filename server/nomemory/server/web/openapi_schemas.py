"""Messages and enums of the contract as JSON Schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from nomemory.server.web.descriptors import is_map, value_of

Json = dict[str, Any]

_COMMENTS: Final = Path(__file__).with_name("comments.json")
_WELL_KNOWN: Final[Mapping[str, Json]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "examples": ["1.5s"]},
    "google.protobuf.FieldMask": {"type": "string", "examples": ["messageId,ts"]},
    "google.protobuf.Struct": {"type": "object", "additionalProperties": True},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array", "items": {}},
}
_SCALARS: Final[Mapping[int, Json]] = {
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.CPPTYPE_UINT32: {"type": "integer", "format": "int32", "minimum": 0},
    FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.CPPTYPE_UINT64: {"type": "string", "format": "int64"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
}


@cache
def _comments() -> Mapping[str, str]:
    found: dict[str, str] = orjson.loads(_COMMENTS.read_bytes())
    return found


def described(full_name: str) -> Json:
    """Return the comment of a thing in the contract, as `description`; nothing where it has none."""
    comment = _comments().get(full_name)
    return {"description": comment} if comment else {}


class Schemas:
    """The schemas that a document refers to, collected while it is made."""

    def __init__(self) -> None:
        self._found: dict[str, Json] = {}

    def all(self) -> Mapping[str, Json]:
        """Return them by their names."""
        return self._found

    def of_message(self, message: Descriptor, without: Collection[str] = ()) -> Json:
        """Return the schema of a message; one without some fields stands by itself."""
        if message.full_name in _WELL_KNOWN:
            return dict(_WELL_KNOWN[message.full_name])
        if without:
            return self._object(message, without)
        if message.name not in self._found:
            self._found[message.name] = {}  # a message may have fields of its own type
            self._found[message.name].update(self._object(message))
        return {"$ref": f"#/components/schemas/{message.name}"}

    def of_field(self, field: FieldDescriptor, *, is_described: bool = True) -> Json:
        """Return the schema of a field."""
        comment = described(field.full_name) if is_described else {}
        if is_map(field):
            values = self.of_field(value_of(field), is_described=False)
            return {"type": "object", "additionalProperties": values, **comment}
        one = self._value(field)
        return {**({"type": "array", "items": one} if field.is_repeated else one), **comment}

    def _object(self, message: Descriptor, without: Collection[str] = ()) -> Json:
        fields = {field.json_name: self.of_field(field) for field in message.fields if field.name not in without}
        return {"type": "object", **described(message.full_name), "properties": fields, "additionalProperties": False}

    def _value(self, field: FieldDescriptor) -> Json:
        if field.message_type is not None:
            return self.of_message(field.message_type)
        if field.enum_type is not None:
            return self._of_enum(field.enum_type)
        return dict(_SCALARS[field.cpp_type])

    def _of_enum(self, enum: EnumDescriptor) -> Json:
        if enum.name not in self._found:
            told = [_comments().get(f"{enum.full_name}.{value.name}", value.name) for value in enum.values]
            about = " ".join([described(enum.full_name).get("description", ""), *told]).strip()
            self._found[enum.name] = {
                "type": "string",
                "enum": [value.name for value in enum.values],
                "description": about,
            }
        return {"$ref": f"#/components/schemas/{enum.name}"}
