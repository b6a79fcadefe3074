"""Generation of the OpenAPI 3.1 document from protobuf descriptors, HTTP rules and comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from google.protobuf.descriptor import FieldDescriptor

from nomemory.server import __version__
from nomemory.server.api.http.examples import RECALL_USER, get_example_parameter, get_example_request
from nomemory.server.api.http.http_rules import HttpRule
from nomemory.server.api.http.json_schema import Json, SchemaCollector, build_description_schema
from nomemory.server.api.http.proto_fields import get_message_type, is_json_object, is_map
from nomemory.server.api.identity.access import RequiredScopes

_JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"
_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a user's token."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "An API key."},
}
_HEADERS: Final[Mapping[str, Json]] = {
    "x-request-id": {
        "description": "Identifies the call in logs. The response has the same header.",
        "schema": {"type": "string"},
    },
    "x-timeout-ms": {"description": "The timeout of the call in milliseconds.", "schema": {"type": "integer"}},
    "x-user-id": {
        "description": "The user of the recall. Required for services with the scope `act-as`, not for user tokens.",
        "schema": {"type": "string"},
        "example": RECALL_USER,
    },
}
_ERROR_FIELDS: Final[Json] = {
    "code": {"type": "string", "description": "The gRPC code, such as `INVALID_ARGUMENT`."},
    "message": {"type": "string", "description": "A human-readable error message."},
    "details": {
        "type": "array",
        "description": "google.rpc.ErrorInfo with the reason, BadRequest with the violations, and RetryInfo.",
        "items": {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]},
    },
}
_ERROR: Final[Json] = {
    "type": "object",
    "description": "An error response.",
    "properties": {"error": {"type": "object", "properties": _ERROR_FIELDS, "required": list(_ERROR_FIELDS)}},
    "required": ["error"],
}


def build_openapi_document(methods: Mapping[HttpRule, RequiredScopes]) -> Json:
    """Return the OpenAPI document that describes the API methods.

    Args:
        methods: the required scopes of each method, by the HTTP rule of the method.
    """
    schemas = SchemaCollector()
    paths: dict[str, Json] = {}
    for rule, required in methods.items():
        operation = _build_operation(rule, required, schemas)
        paths.setdefault(rule.template, {})[rule.verb.lower()] = operation
    services = {rule.method.containing_service.name: rule.method.containing_service for rule in methods}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "NoMemory",
            "version": __version__,
            "description": "A verifiable memory for chat assistants. 64-bit integers are strings. Field names are in "
            "lowerCamelCase; requests can also use the field names of the protobuf definition, and `user` for "
            "`ROLE_USER`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, **build_description_schema(service.full_name)} for name, service in services.items()],
        "paths": paths,
        "components": {
            "schemas": {**schemas.by_name, "Error": _ERROR},
            "securitySchemes": _SECURITY,
            "parameters": {name: {"name": name, "in": "header", **header} for name, header in _HEADERS.items()},
            "responses": {
                "Error": {
                    "description": "An error.",
                    "content": _build_json_content(_build_reference("schemas", "Error"), _JSON),
                }
            },
        },
        "security": [{"bearer": []}, {"apiKey": []}, {}],
    }


def _build_operation(rule: HttpRule, required: RequiredScopes, schemas: SchemaCollector) -> Json:
    method = rule.method
    answers = ("text/event-stream", _LINES) if method.server_streaming else (_JSON,)
    operation: Json = {
        "operationId": f"{method.containing_service.name}_{method.name}",
        "tags": [method.containing_service.name],
        **build_description_schema(method.full_name),
        "parameters": [*_build_path_parameters(rule, schemas), *_build_header_parameters(required)],
        "responses": {
            "200": {
                "description": "The response.",
                "content": _build_json_content(schemas.add_message_schema(method.output_type), *answers),
            },
            "default": _build_reference("responses", "Error"),
        },
    }
    if rule.has_body:
        bodies = (_LINES, _JSON) if method.client_streaming else (_JSON,)
        content = _build_json_content(schemas.add_message_schema(method.input_type), *bodies)
        content[_JSON]["example"] = get_example_request(method)
        operation["requestBody"] = {"required": True, "content": content}
    else:
        operation["parameters"] += _build_query_parameters(rule, schemas)
    return operation


def _build_json_content(schema: Json, *media_types: str) -> Json:
    return {media_type: {"schema": schema} for media_type in media_types}


def _build_reference(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _build_header_parameters(required: RequiredScopes) -> Iterator[Json]:
    for name in _HEADERS:
        if name != "x-user-id" or required.binds_user:
            yield _build_reference("parameters", name)


def _build_path_parameters(rule: HttpRule, schemas: SchemaCollector) -> Iterator[Json]:
    for name in rule.path_fields:
        field = rule.method.input_type.fields_by_name[name]
        example = get_example_parameter(rule.method, field.json_name)
        yield {"name": name, "in": "path", "required": True, **_build_parameter(field, schemas), **example}


def _build_query_parameters(rule: HttpRule, schemas: SchemaCollector) -> Iterator[Json]:
    in_path = set(rule.path_fields)
    for name, field in _iterate_leaf_fields(
        field for field in rule.method.input_type.fields if field.name not in in_path
    ):
        shape = {"style": "deepObject", "explode": True} if is_map(field) else {}
        example = get_example_parameter(rule.method, name)
        yield {"name": name, "in": "query", **shape, **_build_parameter(field, schemas), **example}


def _iterate_leaf_fields(fields: Iterable[FieldDescriptor], outer: str = "") -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield the parameter name and the field descriptor of each query parameter."""
    for field in fields:
        name = f"{outer}{field.json_name}"
        if is_map(field) or not is_json_object(field):
            yield name, field
        elif not field.is_repeated:
            yield from _iterate_leaf_fields(get_message_type(field).fields, f"{name}.")


def _build_parameter(field: FieldDescriptor, schemas: SchemaCollector) -> Json:
    return {
        **build_description_schema(field.full_name),
        "schema": schemas.build_field_schema(field, is_described=False),
    }
