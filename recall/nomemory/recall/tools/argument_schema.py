"""JSON schemas of pydantic models as chat models receive them: without references, titles and defaults."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import (
    BaseModel,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from nomemory.recall.model.step import JsonValue

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
