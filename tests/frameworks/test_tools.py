"""Tests for the tools as plain functions without a framework: definitions and execution."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from client.scripted_server import scripted_server
from frameworks.conftest import TokenRecorder
from frameworks.sample_messages import CANARY, PEANUTS
from openai.types.chat import ChatCompletionFunctionToolParam
from pydantic import TypeAdapter

from nomemory.client import Client
from nomemory.frameworks.tool_arguments import ToolCallError
from nomemory.frameworks.tools import MemoryTools
from nomemory.mcp.tools import TOOLS
from nomemory.server.faults import Fault, Reason
from nomemory.v1 import ingest_service_pb2 as ingest
from nomemory.v1 import query_service_pb2 as query

ROOT = Path(__file__).parents[2]
READS = [name for name, tool in TOOLS.items() if not tool.is_write]


def call_tool(tools: MemoryTools, name: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
    return json.loads(tools.run(name, arguments))


def ids(tools: MemoryTools, name: str, **arguments: object) -> list[str]:
    return [item["message_id"] for item in call_tool(tools, name, **arguments)["messages"]]


def test_tool_definitions_equal_those_of_the_mcp_server() -> None:
    script = ROOT / "scripts" / "gen_tool_definitions.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_tool_definitions_match_the_openai_schema_without_user_parameters(client: Client) -> None:
    definitions = MemoryTools(client, "ann", may_write=True, may_delete=True).definitions
    assert TypeAdapter(list[ChatCompletionFunctionToolParam]).validate_python(definitions)
    assert [definition["function"]["name"] for definition in definitions] == list(TOOLS)
    assert not any(
        "user" in name for definition in definitions for name in definition["function"]["parameters"]["properties"]
    )


def test_caller_without_ingest_scope_is_not_offered_remember(client: Client, user: str) -> None:
    tools = MemoryTools(client, user)
    assert [function["name"] for function in tools.functions] == READS
    assert "unknown tool" in tools.call("remember", {"content": "I moved."})
    assert not client.count_messages(user)


def test_forget_tool_is_offered_only_on_request(client: Client, ann: str) -> None:
    writing, deleting = MemoryTools(client, ann, may_write=True), MemoryTools(client, ann, may_delete=True)
    assert [function["name"] for function in writing.functions] == [*READS, "remember"]
    assert [function["name"] for function in deleting.functions] == [*READS, "forget"]
    assert "unknown tool" in writing.call("forget", {"message_ids": ["m1"]})
    result = json.loads(deleting.run("forget", {"message_ids": ["a1", "b0"]}))
    assert result == {"deleted": 1, "missing_message_ids": ["b0"]}
    assert ids(deleting, "messages_list") == ["c1", "c0", "a2", "a0"]
    assert client.count_messages(f"{ann}-other") == 1


def test_the_text_of_a_recall_starts_with_its_verdict(client: Client, ann: str) -> None:
    text = MemoryTools(client, ann).run("recall", {"query": "What am I allergic to?"})
    assert text.startswith("Verdict: ")


def test_every_tool_reads_only_messages_of_its_user(client: Client, ann: str) -> None:
    tools = MemoryTools(client, ann)
    assert PEANUTS in tools.run("recall", {"query": "What am I allergic to?"})
    assert ids(tools, "search", query="What am I allergic to?")[0] == "a1"
    assert ids(tools, "lexical_search", query='"allergic to"') == ["a1"]
    assert ids(tools, "semantic_search", query="an allergy", top_k=1) == ["a1"]
    assert ids(tools, "messages_list", since="2026-01-05T09:01", until="2026-01-05T09:03:00Z") == ["a2", "a1"]
    assert ids(tools, "neighbors", message_id="a1", before=1, after=1) == ["a0", "a1", "a2"]


def test_filter_restricts_results_and_cursor_continues(client: Client, ann: str) -> None:
    tools = MemoryTools(client, ann)
    filter_arguments = {"role": "ASSISTANT", "conversation_id": "trip", "since": "2026-01-05"}
    assert ids(tools, "lexical_search", query="Kochi", **filter_arguments) == ["c1"]
    assert len(ids(tools, "search", query="Kochi", role=None, conversation_id=None)) >= 2
    first = call_tool(tools, "messages_list", page_size=3.0)
    assert ids(tools, "messages_list", cursor=first["next_cursor"]) == ["a1", "a0"]


def test_results_equal_those_of_the_mcp_server(client: Client, ann: str) -> None:
    (shown,) = call_tool(MemoryTools(client, ann), "neighbors", message_id="c1", before=0)["messages"]
    assert shown == {
        "message_id": "c1",
        "said_at": "2026-01-05T09:04:00Z",
        "role": "assistant",
        "name": "Kim",
        "conversation_id": "trip",
        "content": "Kochi it is.",
    }


def test_remember_retracts_earlier_messages(client: Client, user: str) -> None:
    tools = MemoryTools(client, user, may_write=True)
    call_tool(tools, "remember", content="I live in Lyon.", message_id="m1", said_at="2026-01-01T00:00:00Z")
    call_tool(tools, "remember", content="I do not.", message_id="m2", said_at="2026-01-02T00:00:00Z", retracts=["m1"])
    second, first = call_tool(tools, "messages_list")["messages"]
    assert (second["retracts"], first["retracted_by"]) == (["m1"], "m2")
    assert "items of retracts must be a string" in tools.call("remember", {"content": "x", "retracts": [1]})


def test_remember_stores_the_content_unchanged(client: Client, user: str) -> None:
    tools = MemoryTools(client, user, may_write=True)
    call_arguments = {"content": "I moved to Basel.", "message_id": "m1", "said_at": "2026-01-05T09:00:00"}
    outcomes = [call_tool(tools, "remember", **call_arguments)["outcome"] for _ in range(2)]
    assert outcomes == ["created", "unchanged"]
    assert call_tool(tools, "messages_list")["messages"][0]["said_at"] == "2026-01-05T09:00:00Z"
    assert call_tool(tools, "remember", content="And so did Kim.", role="assistant")["outcome"] == "created"


@pytest.mark.parametrize(
    ("name", "call_arguments"),
    [
        ("recall", {"query": "Where did I move to?"}),
        ("search", {"query": "Where did I move to?"}),
        ("lexical_search", {"query": "Basel"}),
        ("messages_list", {}),
    ],
)
def test_remembered_message_is_found(
    noting: TokenRecorder, user: str, name: str, call_arguments: dict[str, object]
) -> None:
    tools = MemoryTools(noting, user, may_write=True)
    tools.run("remember", {"content": "I moved to Basel."})
    assert "I moved to Basel." in tools.run(name, call_arguments)
    assert noting.at_least[-1] == noting.tokens[-1] != ""


def test_search_is_repeated_without_the_write_token_if_the_index_lags() -> None:
    late = Fault(Reason.ERROR_REASON_INDEX_LAGGING, "the vector index has not applied this write yet")
    written = ingest.WriteMessagesResponse(results=[ingest.WriteResult()])
    written.write_token = "w_1"  # noqa: S105 - not a secret
    with scripted_server() as script, Client(script.target) as client:
        script.will("WriteMessages", written)
        script.will("HybridSearch", late, query.HybridSearchResponse())
        tools = MemoryTools(client, "ann", may_write=True)
        tools.run("remember", {"content": "I moved to Basel."})
        for _ in range(2):
            assert tools.run("search", {"query": "Where did I move to?"}) == '{"messages": []}'
    assert [getattr(item, "at_least", None) for item in script.requests] == [None, "w_1", "", ""]


def test_unknown_tool_argument_error_lists_valid_arguments(client: Client, ann: str) -> None:
    refused = MemoryTools(client, ann).call("search", {"query": "tea", "limit": 3, "x" * 99: 1})
    unknown = f'unknown argument "limit", "{"x" * 40}"'
    filters = "query, since, until, role, conversation_id, exclude_conversation_ids, top_k"
    assert refused == f"not called: {unknown}; supported: {filters}"


@pytest.mark.parametrize("name", READS)
def test_tool_arguments_cannot_select_another_user(client: Client, ann: str, name: str) -> None:
    tools = MemoryTools(client, ann)
    needed: dict[str, object] = {"query": "canaries", "message_id": "b0"}
    call_arguments = {key: value for key, value in needed.items() if key in TOOLS[name].arguments.model_fields}
    assert CANARY not in tools.call(name, call_arguments)
    for smuggled in ({"user_id": f"{ann}-other"}, {"filter": {"user_id": f"{ann}-other"}}):
        assert "unknown" in tools.call(name, {**call_arguments, **smuggled})


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("search", {}, "query is required"),
        ("search", {"query": None}, "query is required"),
        ("search", {"query": 5}, "query must be a string"),
        ("search", {"query": "x", "top_k": True}, "top_k must be an integer"),
        ("search", {"query": "x", "top_k": 1e30}, "not called: "),
        ("build_context", {"turns": ["hello"]}, "items of turns must be an object"),
        ("search", {"query": "x", "role": "any"}, "role must be one of user, assistant, system, tool"),
        ("search", {"query": "x", "since": "soon"}, "since must be an ISO 8601 time"),
        ("messages_list", {"since": "0001-01-01T00:00:00+10:00"}, "between the years 1 and 9999"),
        ("semantic_search", {"query_embedding": [0.1, "x"]}, "items of query_embedding must be a number"),
        ("semantic_search", {"query": "\ud800"}, "not called"),
        ("neighbors", {"message_id": "gone"}, "NOT_FOUND"),
        ("lexical_search", {"query": "x", "cursor": "c_nonsense"}, "INVALID_ARGUMENT"),
        ("search", "not JSON", "not JSON"),
        ("search", "[" * 100_000, "not JSON"),
        ("search", "[]", "the arguments must be an object"),
        ("no_such_tool", "{}", "unknown tool"),
    ],
)
def test_rejection_reason_is_sent_to_the_model(client: Client, user: str, name: str, arguments: Any, why: str) -> None:  # noqa: ANN401 - whatever a model says
    tools = MemoryTools(client, user)
    assert why in tools.call(name, arguments)
    with pytest.raises(ToolCallError):
        tools.run(name, arguments)
