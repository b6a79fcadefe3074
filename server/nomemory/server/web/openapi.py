"""The contract as OpenAPI 3.1: made from the descriptors, their annotations, and the comments of the `.proto` files.

Messages and enums of the contract as JSON Schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from nomemory.server import __version__
from nomemory.server.identity.access import Need
from nomemory.server.web.bindings import Binding, path_of
from nomemory.server.web.values import inner, is_map, json_type, short_names, value_of

Json = dict[str, Any]
_JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"
_ASKED: Final = frozenset({"Role", "ListOrder"})
"""The enums that are in requests, which may say `user` for `ROLE_USER`."""
_COMMENTS: Final = Path(__file__).with_name("comments.json")


@cache
def _comments() -> Mapping[str, str]:
    found: dict[str, str] = orjson.loads(_COMMENTS.read_bytes())
    return found


def described(full_name: str) -> Json:
    """Return the comment of a thing in the contract, as `description`; nothing where it has none."""
    comment = _comments().get(full_name)
    return {"description": comment} if comment else {}


class Schemas:
    """The schemas that a document refers to, collected while it is made: `found`, by their names."""

    def __init__(self) -> None:
        self.found: dict[str, Json] = {}

    def of_message(self, message: Descriptor) -> Json:
        """Return the schema of a message."""
        if message.name not in self.found:
            self.found[message.name] = {}  # a message may have fields of its own type
            self.found[message.name].update(self._object(message))
        return {"$ref": f"#/components/schemas/{message.name}"}

    def of_field(self, field: FieldDescriptor, *, is_described: bool = True) -> Json:
        """Return the schema of a field."""
        comment = described(field.full_name) if is_described else {}
        if is_map(field):
            values = self.of_field(value_of(field), is_described=False)
            return {"type": "object", "additionalProperties": values, **comment}
        one = self._value(field)
        return {**({"type": "array", "items": one} if field.is_repeated else one), **comment}

    def _object(self, message: Descriptor) -> Json:
        fields = {field.json_name: self.of_field(field) for field in message.fields}
        return {"type": "object", **described(message.full_name), "properties": fields, "additionalProperties": False}

    def _value(self, field: FieldDescriptor) -> Json:
        if field.enum_type is not None:
            return self._of_enum(field.enum_type)
        known = json_type(field)
        return self.of_message(inner(field)) if known is None else dict(known.schema)

    def _of_enum(self, enum: EnumDescriptor) -> Json:
        if enum.name not in self.found:
            told = [_comments().get(f"{enum.full_name}.{value.name}", value.name) for value in enum.values]
            about = " ".join([described(enum.full_name).get("description", ""), *told]).strip()
            self.found[enum.name] = {
                "type": "string",
                "enum": [*(value.name for value in enum.values), *(short_names(enum) if enum.name in _ASKED else ())],
                "description": about,
            }
        return {"$ref": f"#/components/schemas/{enum.name}"}


_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a user's token."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "An API key."},
}
_HEADERS: Final[Mapping[str, Json]] = {
    "x-request-id": {"description": "Names the call in logs, and comes back.", "schema": {"type": "string"}},
    "x-timeout-ms": {"description": "Milliseconds until the call is given up.", "schema": {"type": "integer"}},
    "x-user-id": {
        "description": "The user whom a service with the scope `act-as` recalls for; not with a user's own token.",
        "schema": {"type": "string"},
    },
}
_ERROR_FIELDS: Final[Json] = {
    "code": {"type": "string", "description": "The gRPC code, such as `INVALID_ARGUMENT`."},
    "message": {"type": "string", "description": "A sentence for people."},
    "details": {
        "type": "array",
        "description": "google.rpc.ErrorInfo with the reason; BadRequest with each violation; RetryInfo.",
        "items": {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]},
    },
}
_ERROR: Final[Json] = {
    "type": "object",
    "description": "What went wrong.",
    "properties": {"error": {"type": "object", "properties": _ERROR_FIELDS, "required": list(_ERROR_FIELDS)}},
    "required": ["error"],
}


def document(bindings: Sequence[Binding], needs: Mapping[str, Need]) -> Json:
    """Return the document of what is served.

    Args:
        bindings: the ways to call.
        needs: what the methods need of their callers, by their paths over gRPC.
    """
    schemas = Schemas()
    paths: dict[str, Json] = {}
    for binding in bindings:
        operation = _operation(binding, needs[path_of(binding.method)], schemas)
        paths.setdefault(binding.template, {})[binding.verb.lower()] = operation
    services = {binding.method.containing_service.name: binding.method.containing_service for binding in bindings}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "NoMemory",
            "version": __version__,
            "description": "A memory for chat assistants that can be checked. 64-bit numbers are strings; fields go by "
            "lowerCamelCase, and in requests by their names in the contract, too. Requests may say `user` for "
            "`ROLE_USER`; answers never do.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, **described(service.full_name)} for name, service in services.items()],
        "paths": paths,
        "components": {
            "schemas": {**schemas.found, "Error": _ERROR},
            "securitySchemes": _SECURITY,
            "parameters": {name: {"name": name, "in": "header", **one} for name, one in _HEADERS.items()},
            "responses": {"Error": {"description": "An error.", "content": _content(_ref("schemas", "Error"), _JSON)}},
        },
        "security": [{"bearer": []}, {"apiKey": []}, {}],
    }


def _operation(binding: Binding, need: Need, schemas: Schemas) -> Json:
    method = binding.method
    answers = ("text/event-stream", _LINES) if method.server_streaming else (_JSON,)
    operation: Json = {
        "operationId": f"{method.containing_service.name}_{method.name}",
        "tags": [method.containing_service.name],
        **described(method.full_name),
        "parameters": [*_fields_in_path(binding, schemas), *_headers(need)],
        "responses": {
            "200": {
                "description": "The answer.",
                "content": _content(schemas.of_message(method.output_type), *answers),
            },
            "default": _ref("responses", "Error"),
        },
    }
    if binding.has_body:
        bodies = (_LINES, _JSON) if method.client_streaming else (_JSON,)
        content = _content(schemas.of_message(method.input_type), *bodies)
        operation["requestBody"] = {"required": True, "content": content}
    else:
        operation["parameters"] += _fields_in_query(binding, schemas)
    return operation


def _content(schema: Json, *media_types: str) -> Json:
    return {media_type: {"schema": schema} for media_type in media_types}


def _ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _headers(need: Need) -> Iterator[Json]:
    for name in _HEADERS:
        if name != "x-user-id" or need.binds_user:
            yield _ref("parameters", name)


def _fields_in_path(binding: Binding, schemas: Schemas) -> Iterator[Json]:
    for name in binding.variables.values():
        field = binding.method.input_type.fields_by_name[name]
        yield {"name": name, "in": "path", "required": True, **_parameter(field, schemas)}


def _fields_in_query(binding: Binding, schemas: Schemas) -> Iterator[Json]:
    in_path = set(binding.variables.values())
    for name, field in _leaves(field for field in binding.method.input_type.fields if field.name not in in_path):
        shape = {"style": "deepObject", "explode": True} if is_map(field) else {}
        yield {"name": name, "in": "query", **shape, **_parameter(field, schemas)}


def _leaves(fields: Iterable[FieldDescriptor], outer: str = "") -> Iterator[tuple[str, FieldDescriptor]]:
    """Return the fields that a query may name, each with its name."""
    for field in fields:
        name = f"{outer}{field.json_name}"
        if is_map(field) or json_type(field) is not None:
            yield name, field
        elif not field.is_repeated:
            yield from _leaves(inner(field).fields, f"{name}.")


def _parameter(field: FieldDescriptor, schemas: Schemas) -> Json:
    return {**described(field.full_name), "schema": schemas.of_field(field, is_described=False)}
