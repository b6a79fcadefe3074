"""Tests for the golden scenario that `scripts/golden` runs, and for the comparison of results."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from nomemory.mcp.results import Messages
from nomemory.mcp.tools import TOOLS
from nomemory.recall.tools.argument_parsing import find_unknown_arguments
from nomemory.v1 import ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2
from proofs.conformance.client_runners import CLIENT_RUNNERS, SCENARIO
from proofs.conformance.expectation import find_client_disagreements, find_outcome_differences
from proofs.conformance.mcp_requests import TOOLS as CALLED_BY
from proofs.conformance.mcp_requests import NoToolError, ToolCall, build_tool_call
from proofs.conformance.mcp_view import select_visible_expectations, select_visible_outcome, to_api_reply

ROOT = Path(__file__).parents[2]
STEPS: list[dict[str, Any]] = json.loads(SCENARIO.read_text(encoding="utf-8"))["steps"]
CONTRACT = (ingest_service_pb2, query_service_pb2, recall_service_pb2, server_service_pb2)


def test_every_rpc_of_the_contract_is_called() -> None:
    rpcs = {
        method.name
        for module in CONTRACT
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert {step["call"] for step in STEPS} == rpcs


def test_every_step_has_a_unique_name_and_an_expectation() -> None:
    assert max(Counter(step["name"] for step in STEPS).values()) == 1
    for step in STEPS:
        assert {"reply", "replies", "first", "refused"} & step.keys(), step["name"]


def test_every_client_has_a_runner() -> None:
    clients = {folder.name for folder in (ROOT / "clients").iterdir() if folder.is_dir()}
    assert {runner.name for runner in CLIENT_RUNNERS} == clients | {"http", "mcp"}


def list_tool_calls() -> dict[str, list[ToolCall]]:
    """Return the calls of each tool in the scenario."""
    calls_by_tool: dict[str, list[ToolCall]] = {}
    for step in STEPS:
        with suppress(NoToolError):
            call = build_tool_call(step, step["request"])
            calls_by_tool.setdefault(call.tool, []).append(call)
    return calls_by_tool


def test_every_tool_is_called() -> None:
    calls_by_tool = list_tool_calls()
    assert calls_by_tool.keys() == TOOLS.keys() == set(CALLED_BY.values())
    assert sum(map(len, calls_by_tool.values())) >= 34


def test_tool_calls_use_only_known_arguments() -> None:
    for tool, calls in list_tool_calls().items():
        for call in calls:
            assert not list(find_unknown_arguments(TOOLS[tool].arguments, call.arguments))


def test_a_request_field_without_a_tool_argument_is_an_error() -> None:
    for request, why in (({"order": "LIST_ORDER_OLDEST_FIRST"}, "argument for order"), ({"atLeast": "w_x"}, "atLeast")):
        request_json = {"userId": "lin", **request}
        with pytest.raises(NoToolError, match=why):
            build_tool_call({"call": "ListMessages", "as": "service", "request": request_json}, request_json)


def test_fields_that_tools_omit_are_not_compared() -> None:
    step = {"call": "LexicalSearch", "reply": {"items": [{"messageId": "a", "userId": "u"}], "highlights": "*"}}
    assert select_visible_expectations(step)["reply"] == {"items": [{"messageId": "a"}]}
    got = {"replies": [{"items": [{"messageId": "a", "userId": "u", "content": "x"}], "highlights": []}]}
    assert select_visible_outcome(step, got) == {"replies": [{"items": [{"messageId": "a", "content": "x"}]}]}


def test_tool_results_are_converted_to_contract_messages() -> None:
    answered = {"messages": [{"message_id": "a", "said_at": "2026-01-01T00:00:00Z", "role": "user", "content": "x"}]}
    shown = Messages.model_validate(answered).model_dump(mode="json")
    message = {"messageId": "a", "ts": "2026-01-01T00:00:00Z", "role": "ROLE_USER", "content": "x"}
    assert to_api_reply("ListMessages", shown) == {"items": [message]}
    parsed = ParseDict(dict(to_api_reply("ListMessages", shown)), query_service_pb2.ListMessagesResponse())
    assert parsed.items[0].content == "x"


GOT = {"replies": [{"items": [{"id": "1", "n": 2}], "cursor": "c"}]}
REFUSED = {"refused": {"code": "NOT_FOUND", "reason": "R", "message": "no", "violations": ["a", "b"]}}


@pytest.mark.parametrize(
    ("expected", "outcome"),
    [
        ({"reply": {"items": [{"id": "1"}], "cursor": "*", "none": None}}, GOT),
        ({"replies": [{"items": "*"}]}, GOT),
        ({"last": {"cursor": "c"}}, GOT),
        ({"refused": {"code": "NOT_FOUND", "reason": "R"}}, REFUSED),
        ({"refused": {"code": "NOT_FOUND", "reason": "R", "violations": ["b", "a"]}}, REFUSED),
    ],
)
def test_expected_outcome_has_no_differences(expected: dict[str, Any], outcome: dict[str, Any]) -> None:
    assert not list(find_outcome_differences(expected, outcome))


@pytest.mark.parametrize(
    ("expected", "outcome"),
    [
        ({"reply": {"items": [{"id": "2"}]}}, GOT),
        ({"reply": {"items": []}}, GOT),
        ({"reply": {"items": None}}, GOT),
        ({"reply": {"other": "*"}}, GOT),
        ({"replies": []}, GOT),
        ({"reply": {}}, {"replies": []}),
        ({"reply": {}}, REFUSED),
        ({"refused": {"code": "NOT_FOUND", "reason": "R"}}, GOT),
        ({"refused": {"code": "NOT_FOUND", "reason": "S"}}, REFUSED),
        ({"refused": {"code": "INTERNAL", "reason": "R"}}, REFUSED),
        ({"refused": {"code": "NOT_FOUND", "reason": "R", "violations": ["a"]}}, REFUSED),
    ],
)
def test_difference_from_the_expectation_is_reported(expected: dict[str, Any], outcome: dict[str, Any]) -> None:
    assert list(find_outcome_differences(expected, outcome))


def test_generated_ids_and_rounding_are_not_client_disagreements() -> None:
    def outcome(**changed: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        reply = {"writeToken": "x", "id": "m_0123456789ABCDEFGHJKMNPQRS", "score": 0.30000001, "text": "a"}
        return {"replies": [reply | changed]}

    step = {"name": "one"}
    alike = outcome(writeToken="y", id="m_ZZZ3456789ABCDEFGHJKMNPQRS", score=0.3)
    assert not list(find_client_disagreements([step], [outcome()], [alike]))
    for changed in ({"text": "b"}, {"score": 0.4}, {"more": 1}):
        assert list(find_client_disagreements([step], [outcome()], [outcome(**changed)]))


def test_recall_times_are_compared_only_if_the_step_sets_them() -> None:
    early, late = ({"replies": [{"limits": {"timeRange": {"until": moment}}}]} for moment in ("early", "late"))
    untimed_step = {"name": "one", "request": {"question": "?"}}
    timed_step = {"name": "one", "request": {"context": {"now": "2026-06-01T00:00:00Z"}}}
    assert not list(find_client_disagreements([untimed_step], [early], [late]))
    assert list(find_client_disagreements([timed_step], [early], [late]))


def test_client_packages_have_the_server_version() -> None:
    package = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text(encoding="utf-8"))
    assert f'version = "{package["version"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    artifact = f"<artifactId>nomemory-client</artifactId>\n  <version>{package['version']}</version>"
    assert artifact in (ROOT / "clients" / "java" / "pom.xml").read_text(encoding="utf-8")
    readme = (ROOT / "clients" / "java" / "README.md").read_text(encoding="utf-8")
    assert artifact in readme


def test_java_stubs_are_generated_by_the_build_and_not_committed() -> None:
    java = ROOT / "clients" / "java"
    assert not (java / "src" / "main" / "java" / "io" / "nomemory" / "v1").exists()
    assert "target/" in (java / ".gitignore").read_text(encoding="utf-8").split()


def test_no_lock_file_names_a_registry() -> None:
    assert '"resolved"' not in (ROOT / "clients" / "typescript" / "package-lock.json").read_text(encoding="utf-8")
