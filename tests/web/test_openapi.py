"""Tests that the OpenAPI document describes all served methods with the contract's comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from google.api import annotations_pb2
from identity.contract import METHODS

if TYPE_CHECKING:
    from web.http_server import Web

VERBS = {"get", "put", "post", "delete", "patch"}


@pytest.fixture(scope="module")
def document(web: Web) -> dict[str, Any]:
    openapi: dict[str, Any] = web.client.get("/openapi.json").json()
    return openapi


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            yield path, verb, operation


def everything_in(node: object) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from everything_in(inner)


def resolved(document: dict[str, Any], reference: str) -> Any:  # noqa: ANN401 - any part of the document
    node: Any = document
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


def test_openapi_has_every_annotated_method(document: dict[str, Any]) -> None:
    expected = set()
    for method in METHODS.values():
        rule = method.descriptor.GetOptions().Extensions[annotations_pb2.http]
        verb = rule.WhichOneof("pattern")
        expected.add((getattr(rule, verb), verb))
    assert {(path, verb) for path, verb, _ in operations(document)} == expected


def test_the_openapi_document_is_complete_and_its_references_resolve(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["title"]
    assert document["info"]["version"]
    for node in everything_in(document):
        if isinstance(node.get("$ref"), str):
            assert resolved(document, node["$ref"])
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))
    for path, verb, operation in operations(document):
        assert verb in VERBS
        parameters = [item if "name" in item else resolved(document, item["$ref"]) for item in operation["parameters"]]
        in_path = [parameter["name"] for parameter in parameters if parameter["in"] == "path"]
        assert sorted(in_path) == sorted(re.findall(r"\{(.*?)\}", path))
        assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")
        assert len({(parameter["name"], parameter["in"]) for parameter in parameters}) == len(parameters)
        assert all("schema" in parameter for parameter in parameters)
        assert {"200", "default"} <= set(operation["responses"])
        assert set(operation["tags"]) <= {tag["name"] for tag in document["tags"]}


def test_openapi_descriptions_are_the_proto_comments(document: dict[str, Any]) -> None:
    listing = document["paths"]["/v1/users/{user_id}/messages"]["get"]
    assert listing["description"].startswith("ListMessages returns messages by time, newest first")
    (size,) = (item for item in listing["parameters"] if item.get("name") == "pageSize")
    assert size["description"].startswith("page_size is the maximum number of messages.")
    schemas = [node for name, node in document["components"]["schemas"].items() if name != "Error"]
    assert all(node.get("description") for node in schemas)
    fields = [field for node in schemas for field in node.get("properties", {}).values()]
    assert all(field.get("description") for field in fields)


def test_openapi_schemas_match_the_json_mapping(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["CountMessagesResponse"]["properties"]["count"]["type"] == "string"
    message = schemas["ChatMessage"]["properties"]
    assert message["ts"]["format"] == "date-time"
    assert message["metadata"]["additionalProperties"] == {"type": "string"}
    assert {"ROLE_USER", "user"} <= {*schemas["Role"]["enum"]}
    assert {"LIST_ORDER_OLDEST_FIRST", "oldest_first"} <= {*schemas["ListOrder"]["enum"]}
    assert "supported" not in schemas["Verdict"]["enum"], "no request contains a verdict"
    recall = document["paths"]["/v1/recall"]["post"]
    assert {"$ref": "#/components/parameters/x-user-id"} in recall["parameters"]
    stream = document["paths"]["/v1/recall:stream"]["post"]["responses"]["200"]["content"]
    assert "text/event-stream" in stream
    upload = document["paths"]["/v1/messages:import"]["post"]["requestBody"]["content"]
    assert "application/x-ndjson" in upload
