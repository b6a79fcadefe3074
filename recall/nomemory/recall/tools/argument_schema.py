"""JSON schemas that simple chat models understand: without references, titles and defaults."""

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
def build_object_schema(model: type[BaseModel]) -> Schema:
    """Return the JSON schema of a pydantic model. The schema is cached; callers must not change it."""
    schema = model.model_json_schema(schema_generator=_CompactSchemaGenerator)
    definitions = schema.pop("$defs", {})
    inlined: Schema = _inline_references(schema, definitions)
    return inlined


def _inline_references(value: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401 - any part of a schema
    """Replace references in a schema by their definitions, because simple chat models cannot follow references."""
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref", "")
    resolved = {**definitions.get(reference.removeprefix(_DEFINITIONS), {}), **value}
    return {key: _inline_references(inner, definitions) for key, inner in resolved.items() if key != "$ref"}


class _CompactSchemaGenerator(GenerateJsonSchema):
    """Generates JSON schemas without titles and defaults."""

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
