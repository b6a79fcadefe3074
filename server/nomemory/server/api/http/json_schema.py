"""JSON Schemas of protobuf messages and enums, with the comments of the `.proto` files as descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from nomemory.server.api.http.proto_fields import (
    get_map_value_field,
    get_message_type,
    is_json_object,
    is_map,
    map_short_enum_names,
)

Json = dict[str, Any]
_REQUEST_ENUMS: Final = frozenset({"Role", "ListOrder"})
"""Enums that occur in requests. Requests may use short names, such as `user` for `ROLE_USER`."""
_COMMENTS: Final = Path(__file__).with_name("comments.json")


@cache
def _load_comments() -> Mapping[str, str]:
    comments: dict[str, str] = orjson.loads(_COMMENTS.read_bytes())
    return comments


def build_description_schema(full_name: str) -> Json:
    """Return a schema that has the comment of a protobuf declaration as its description; empty without a comment."""
    comment = _load_comments().get(full_name)
    return {"description": comment} if comment else {}


_SCALARS: Final[Mapping[int, Json]] = {
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
}
_WELL_KNOWN_TYPES: Final[Mapping[str, Json]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "examples": ["1.5s"]},
    "google.protobuf.FieldMask": {"type": "string", "examples": ["messageId,ts"]},
    "google.protobuf.Struct": {"type": "object", "additionalProperties": True},
}


class SchemaCollector:
    """Collects the JSON Schemas of an OpenAPI document.

    Attributes:
        by_name: the schemas by the name of the message or enum.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Json] = {}

    def add_message_schema(self, message: Descriptor) -> Json:
        """Add the schema of a message to the document, and return a `$ref` to the schema."""
        if message.name not in self.by_name:
            self.by_name[message.name] = {}  # message types may be recursive
            self.by_name[message.name].update(self._build_object_schema(message))
        return {"$ref": f"#/components/schemas/{message.name}"}

    def build_field_schema(self, field: FieldDescriptor, *, is_described: bool = True) -> Json:
        """Return the schema of a message field, with the comment of the field if `is_described` is true."""
        comment = build_description_schema(field.full_name) if is_described else {}
        if is_map(field):
            values = self.build_field_schema(get_map_value_field(field), is_described=False)
            return {"type": "object", "additionalProperties": values, **comment}
        value = self._build_value_schema(field)
        return {**({"type": "array", "items": value} if field.is_repeated else value), **comment}

    def _build_object_schema(self, message: Descriptor) -> Json:
        fields = {field.json_name: self.build_field_schema(field) for field in message.fields}
        return {
            "type": "object",
            **build_description_schema(message.full_name),
            "properties": fields,
            "additionalProperties": False,
        }

    def _build_value_schema(self, field: FieldDescriptor) -> Json:
        if field.enum_type is not None:
            return self._build_enum_schema(field.enum_type)
        if is_json_object(field):
            return self.add_message_schema(get_message_type(field))
        if field.message_type is not None:
            return dict(_WELL_KNOWN_TYPES[field.message_type.full_name])
        return dict(_SCALARS[field.type])

    def _build_enum_schema(self, enum: EnumDescriptor) -> Json:
        if enum.name not in self.by_name:
            comments = [_load_comments().get(f"{enum.full_name}.{value.name}", value.name) for value in enum.values]
            short_names = map_short_enum_names(enum) if enum.name in _REQUEST_ENUMS else ()
            self.by_name[enum.name] = {
                "type": "string",
                "enum": [*(value.name for value in enum.values), *short_names],
                "description": " ".join(
                    [build_description_schema(enum.full_name).get("description", ""), *comments]
                ).strip(),
            }
        return {"$ref": f"#/components/schemas/{enum.name}"}
