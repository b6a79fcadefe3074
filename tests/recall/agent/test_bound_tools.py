"""Tests that the tools only request messages of the bound user, whatever a planner sends."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.agent.scripted_query import ScriptedQuery

from captured_logs import logged
from chat_messages import new_message
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.question import Role
from nomemory.recall.model.sufficiency import Sufficiency
from nomemory.recall.tools import bound_tools
from nomemory.recall.tools.bound_tools import BoundTools
from nomemory.recall.tools.definitions import CALLABLE_TOOLS, TOOLS
from nomemory.recall.tools.identity_guard import is_user_key, remove_user_ids
from nomemory.recall.tools.query_stub import (
    EmbeddingRejectedError,
    QueryServiceUnavailableError,
    QueryStub,
    UserBinding,
)

NOW = datetime(2026, 3, 14, 2, tzinfo=UTC)
SPELLINGS = [
    "user_id",
    "userId",
    "USER_ID",
    "user",
    "uid",
    "x-user-id",
    "tenant",
    "tenantId",
    "ｕｓｅｒ＿ｉｄ",
    "user id",
]
VALID: dict[str, dict[str, Any]] = {
    "messages_list": {"role": "user", "since": "2026-01-01T00:00:00Z"},
    "lexical_search": {"query_text": "hot pot", "filter": {"role": "user", "time_range": {}}},
    "semantic_search": {"query_text": "hot pot", "filter": {"role": "any"}},
    "hybrid_search": {"query_text": "hot pot?", "filter": {"role": "user", "time_range": {}}},
    "neighbors": {"message_id": "m1"},
}


def tool_schemas() -> dict[str, Any]:
    return {name: tool.build_schema() for name, tool in TOOLS.items()}


def bound(stub: QueryStub, budget: Budget | None = None, user_id: str = "lin") -> BoundTools:
    return BoundTools(UserBinding(user_id), stub, budget or Budget(), NOW)


def carriers(key: str, value: str) -> st.SearchStrategy[Any]:
    """Return values that contain a key at some depth: in objects, lists, and JSON strings."""
    return st.recursive(
        st.just({key: value}),
        lambda inner: st.one_of(
            st.builds(lambda item: {"filter": item}, inner),
            st.builds(lambda item: [0, item, None], inner),
            st.builds(json.dumps, inner),
        ),
        max_leaves=4,
    )


@given(
    tool=st.sampled_from(sorted(CALLABLE_TOOLS)),
    key=st.sampled_from(SPELLINGS),
    position=st.sampled_from(["", "filter", "cursor", "query_text", "anything"]),
    data=st.data(),
)
def test_injected_user_argument_is_dropped_and_counted(tool: str, key: str, position: str, data: st.DataObject) -> None:
    stub = ScriptedQuery()
    arguments = dict(VALID[tool])
    if position:
        arguments[position] = data.draw(carriers(key, "mei"))
    else:
        arguments[key] = "mei"
    with logged(bound_tools) as logs:
        result = asyncio.run(bound(stub).call(tool, arguments, 1.0))
    assert result.dropped_arguments == 1
    assert "mei" not in repr(result)
    assert all(request.user_id == "lin" and "mei" not in str(request) for request in stub.requests)
    assert logs == [{"event": "user ids removed from tool arguments", "tool": tool, "count": 1, "log_level": "warning"}]


@given(
    st.dictionaries(
        st.text(max_size=10), st.recursive(st.none() | st.text(max_size=10) | st.integers(), st.lists, max_leaves=5)
    )
)
def test_any_planner_arguments_yield_an_observation_bound_to_the_user(arguments: dict[str, Any]) -> None:
    for tool in CALLABLE_TOOLS:
        stub = ScriptedQuery()
        result = asyncio.run(bound(stub).call(tool, arguments, 1.0))
        assert result.observation
        assert all(request.user_id == "lin" for request in stub.requests)


def test_arguments_nested_too_deeply_are_dropped() -> None:
    deep: Any = {"user_id": "mei"}
    for _ in range(200):
        deep = {"filter": deep}
    cleaned, dropped = remove_user_ids({"filter": deep})
    assert dropped == 1
    assert "mei" not in repr(cleaned)


def test_tool_schemas_have_no_user_argument() -> None:
    def keys(schema: dict[str, Any]) -> set[str]:
        properties = schema.get("properties", {})
        return set(properties).union(*(keys(item) for item in properties.values()))

    named = set().union(*(keys(schema) for schema in tool_schemas().values()))
    assert named >= {"query_text", "query_embedding", "message_id", "time_range", "since", "cursor", "top_k"}
    assert not [name for name in named if is_user_key(name)]


def test_planners_are_offered_four_tools() -> None:
    assert set(tool_schemas()) == set(TOOLS) == {"messages_list", "lexical_search", "semantic_search", "neighbors"}


def test_tool_schemas_match_the_argument_parser() -> None:
    schema: Any = tool_schemas()["lexical_search"]
    assert schema["required"] == ["query_text"]
    assert schema["properties"]["filter"]["properties"]["role"]["enum"] == [
        "user",
        "assistant",
        "system",
        "tool",
        "any",
    ]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("lexical_search", {}, "query_text: Field required"),
        ("lexical_search", {"query_text": 5}, "query_text: Input should be a valid string"),
        (
            "lexical_search",
            {"query_text": "a", "page_size": 0},
            "page_size: Input should be greater than",
        ),
        ("lexical_search", {"query_text": "a", "page_size": 1.5}, "page_size: Input should be a valid integer"),
        ("lexical_search", {"query_text": "a", "filter": {"role": "boss"}}, "filter: role: Input should be"),
        ("lexical_search", {"query_text": "a", "filter": "x"}, "filter: Input should be"),
        ("messages_list", {"since": "yesterday"}, "since: must be an ISO 8601 time"),
        ("messages_list", {"since": "0001-01-01T00:00:00+14:00"}, "since: must be an ISO 8601 time"),
        ("messages_list", {"since": "2026-03-14T02:00:00Z"}, "the time range is empty"),
        ("semantic_search", {}, "give exactly one of query_text and query_embedding"),
        ("semantic_search", {"query_text": "a", "query_embedding": [1]}, "give exactly one of"),
        ("semantic_search", {"query_embedding": ["a"]}, "query_embedding: Input should be a valid number"),
        ("semantic_search", {"query_text": "a", "min_score": 2}, "min_score: Input should be less than or equal to 1"),
        ("hybrid_search", {}, "query_text: Field required"),
        ("hybrid_search", {"query_text": "a", "top_k": 201}, "top_k: Input should be less than or equal to 200"),
        ("neighbors", {"message_id": "m", "before": "many"}, "before: Input should be a valid integer"),
        (
            "drop_table",
            {},
            "there is no such tool: use one of messages_list, lexical_search, semantic_search, neighbors",
        ),
    ],
)
async def test_argument_error_is_an_observation(tool: str, arguments: dict[str, Any], says: str) -> None:
    stub = ScriptedQuery()
    result = await bound(stub).call(tool, arguments, 1.0)
    assert says in result.observation
    assert not result.succeeded
    assert not stub.requests


async def test_unknown_arguments_are_ignored_and_counted() -> None:
    stub = ScriptedQuery()
    result = await bound(stub).call("lexical_search", {"query_text": "a", "limit": 3, "filter": {"who": "x"}}, 1.0)
    assert "2 unknown argument(s) were ignored" in result.observation
    assert result.arguments == {"query_text": "a", "filter": {}}


async def test_filter_is_accepted_as_a_json_string() -> None:
    stub = ScriptedQuery()
    await bound(stub).call("lexical_search", {"query_text": "a", "filter": '{"role": "user"}'}, 1.0)
    assert stub.requests[0].filter.role == 1


async def test_tools_return_only_messages_before_the_time_of_the_question() -> None:
    late = [new_message("lin", "before", "x", NOW.timestamp() - 1), new_message("lin", "at", "x", NOW.timestamp())]
    stub = ScriptedQuery(late)
    tools = bound(stub)
    searched = {"query_text": "x", "filter": {"time_range": {"until": "2030-01-01"}}}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("messages_list", {"until": "2030-01-01"}),
        *((tool, searched) for tool in ("lexical_search", "semantic_search", "hybrid_search")),
        ("neighbors", {"message_id": "before", "after": 5}),
    ]
    for tool, arguments in calls:
        result = await tools.call(tool, arguments, 1.0)
        assert [hit.message.message_id for hit in result.items] == ["before"]
    for request in stub.requests[:4]:
        assert request.filter.time_range.until.ToDatetime(UTC) == NOW


async def test_message_limit_of_a_call_is_reported_to_the_planner() -> None:
    stub = ScriptedQuery([new_message("lin", f"m{number}", "word " * 10, number) for number in range(30)])
    result = await bound(stub, Budget(result_items=20)).call("lexical_search", {"query_text": "word"}, 1.0)
    assert len(result.items) == 20
    assert result.truncated
    assert "10 more were cut to fit the budget" in result.observation
    assert stub.requests[0].page_size == 20


async def test_character_limit_of_a_call_always_admits_the_first_message() -> None:
    contents = ["a" * 900, "b" * 500, "c" * 90]
    stub = ScriptedQuery([new_message("lin", f"m{number}", content, number) for number, content in enumerate(contents)])
    result = await bound(stub, Budget(result_chars=1_000)).call("lexical_search", {"query_text": "word"}, 1.0)
    assert [hit.message.content[0] for hit in result.items] == ["a", "c"]
    assert result.truncated


async def test_ranking_is_not_limited_to_the_number_of_items_shown_to_the_planner() -> None:
    stub = ScriptedQuery([new_message("lin", f"m{number}", "word " * 800, number) for number in range(40)])
    budget = Budget(evidence_messages=40, result_items=20)
    result = await bound(stub, budget).call("hybrid_search", {"query_text": "word", "top_k": 40}, 5.0)
    assert stub.requests[0].top_k == 40
    assert len(result.items) == 40
    assert not result.truncated


async def test_truncated_neighbors_keep_the_messages_nearest_to_the_anchor(sample: QueryStub) -> None:
    result = await bound(sample, Budget(result_items=3)).call("neighbors", {"message_id": "lin-0010", "before": 8}, 5.0)
    assert [hit.message.message_id for hit in result.items] == ["lin-0008", "lin-0009", "lin-0010"]
    assert result.truncated


async def test_default_neighbor_range_is_set_by_the_host(sample: QueryStub) -> None:
    result = await bound(sample).call("neighbors", {"message_id": "lin-0041"}, 5.0)
    assert [hit.message.message_id for hit in result.items] == [f"lin-00{number}" for number in range(33, 42)]


async def test_caller_embedding_is_sent_only_with_the_question() -> None:
    stub = ScriptedQuery()
    tools = BoundTools(UserBinding("lin"), stub, Budget(), NOW, embedded=("what can I eat?", (0.0, 1.0)))
    await tools.call("hybrid_search", {"query_text": "what can I eat?"}, 5.0)
    await tools.call("hybrid_search", {"query_text": "what can I drink?"}, 5.0)
    await tools.call("semantic_search", {"query_text": "what can I eat?"}, 5.0)
    await tools.call("semantic_search", {"query_text": "what can I drink?"}, 5.0)
    with_vector, other, meant, other_meant = stub.requests
    assert list(with_vector.query_embedding.values) == [0.0, 1.0]
    assert not other.HasField("query_embedding")
    assert list(meant.query_embedding.values) == [0.0, 1.0]
    assert other_meant.WhichOneof("query") == "query_text"


async def test_no_embedding_is_sent_without_a_caller_embedding() -> None:
    stub = ScriptedQuery()
    await bound(stub).call("hybrid_search", {"query_text": ""}, 5.0)
    assert not stub.requests[0].HasField("query_embedding")


async def test_invalid_caller_embedding_is_an_error_not_an_observation(sample: QueryStub) -> None:
    tools = BoundTools(UserBinding("lin"), sample, Budget(), NOW, embedded=("x", (0.0, 1.0)))
    with pytest.raises(EmbeddingRejectedError, match=r"^expected \d+ dimensions, got 2$"):
        await tools.call("hybrid_search", {"query_text": "x"}, 5.0)


async def test_ranking_result_has_sufficiency_and_query_coverage() -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "x", 1)], coverage=0.25, sufficiency=0.75, speaker_matched=True)
    result = await bound(stub).call("hybrid_search", {"query_text": "x"}, 5.0)
    assert (result.word_hit_count, result.query_coverage, result.semantic_unavailable) == (1, 0.25, False)
    assert result.sufficiency == Sufficiency(0.75, speaker_matched=True)
    assert (await bound(ScriptedQuery()).call("hybrid_search", {"query_text": "x"}, 5.0)).sufficiency is None


async def test_cursor_is_returned_unchanged(sample: QueryStub) -> None:
    tools = bound(sample)
    page: dict[str, Any] = {"role": "user", "page_size": 5}
    first = await tools.call("messages_list", page, 5.0)
    second = await tools.call("messages_list", {**page, "cursor": first.next_cursor}, 5.0)
    assert first.observation == "5 messages; there are more"
    assert len({hit.message.message_id for hit in (*first.items, *second.items)}) == 10


async def test_invalid_tool_arguments_become_observations(sample: QueryStub) -> None:
    tools = bound(sample)
    forged = await tools.call("messages_list", {"role": "any", "cursor": "c_forged"}, 5.0)
    foreign = await tools.call("neighbors", {"message_id": "mei-0001"}, 5.0)
    unknown = await tools.call("neighbors", {"message_id": "nowhere"}, 5.0)
    assert forged.observation.startswith("refused: cursor")
    assert foreign.observation == unknown.observation
    assert not foreign.items
    tools.check_reachable()


async def test_authentication_failure_is_an_error_not_an_observation() -> None:
    stub = ScriptedQuery(failing={"LexicalSearch": grpc.StatusCode.UNAUTHENTICATED})
    with pytest.raises(QueryServiceUnavailableError):
        await bound(stub).call("lexical_search", {"query_text": "x"}, 5.0)


async def test_messages_have_all_fields(sample: QueryStub) -> None:
    result = await bound(sample).call("neighbors", {"message_id": "lin-0055", "before": 0}, 5.0)
    assert result.items[0].message == RetrievedMessage(
        "lin-0055",
        datetime(2025, 5, 5, 1, 58, tzinfo=UTC).replace(second=result.items[0].message.ts.second),
        Role.USER,
        "你好小助手，我是悦悦的妈妈。我是无辣不欢的人，怎么生了个一点不能碰的女儿呀，哈哈。你帮我劝劝她早点睡。",
        "林妈妈",
        "lin-2025-05-05",
    )


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**39])
@pytest.mark.parametrize(
    ("tool", "name"), [("messages_list", "page_size"), ("semantic_search", "query_embedding"), ("neighbors", "before")]
)
async def test_number_above_the_maximum_is_rejected(tool: str, name: str, number: int) -> None:
    stub = ScriptedQuery()
    arguments = VALID[tool] | {name: [number] if name == "query_embedding" else number}
    arguments.pop("query_text", None)
    result = await bound(stub).call(tool, arguments, 1.0)
    assert result.observation.startswith(f"not called: {name}: ")
    assert not stub.requests
