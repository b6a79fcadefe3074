"""The tools: what a caller is offered, what they answer, and for whom."""

from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from model_context.guarded import Connect, Guarded

from nomemory.mcp.server import REFUSAL

READS = ["recall", "build_context", "search", "lexical_search", "semantic_search", "messages_list", "neighbors"]


def ids(result: CallToolResult) -> list[str]:
    assert not result.is_error, result.content
    return [item["message_id"] for item in result.structured_content["messages"]]


def said(result: CallToolResult) -> str:
    assert result.is_error
    return result.content[0].text  # type: ignore[union-attr]  # this server answers in texts


async def test_caller_with_ingest_scope_is_offered_remember(guarded: Guarded, connect: Connect) -> None:
    for credential, offered in ((guarded.service, [*READS, "remember"]), (guarded.reader, READS)):
        async with connect(credential, "ann") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == offered


async def test_tools_say_what_they_do_and_take_no_user(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        tools = (await client.list_tools()).tools
    for tool in tools:
        assert tool.annotations
        assert tool.annotations.read_only_hint == (tool.name != "remember")
        assert tool.annotations.destructive_hint is False
        assert "user" not in json.dumps(tool.input_schema["properties"].get("user_id", "")), tool.name
        assert tool.output_schema
        assert tool.output_schema["type"] == "object"


async def test_a_recall_quotes_what_was_said(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        result = await client.call_tool("recall", {"question": "What is Lena allergic to?"})
    view = result.structured_content
    lines = [*view["preferences"], *view["profile"], *view["constraints"]]
    assert any(
        quote["message_id"] == "a9" and "peanuts" in quote["quote"] for line in lines for quote in line["citations"]
    )
    assert view["verdict"] in {"supported", "insufficient"}
    assert "allergic to peanuts" in result.content[0].text  # type: ignore[union-attr]  # as above


async def test_a_context_has_related_messages_within_its_tokens(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        turns = [{"role": "user", "text": "What is Lena allergic to?"}]
        result = await client.call_tool("build_context", {"turns": turns, "max_tokens": 400})
        refused = await client.call_tool("build_context", {})
    answer = result.structured_content
    assert answer is not None, said(result)
    assert any("allergic" in message["content"] for message in answer["related"])
    assert answer["token_count"] <= 400
    assert "turns: must not be empty" in said(refused)


async def test_a_recall_gives_the_model_what_its_tokens_hold_and_a_program_the_same(
    guarded: Guarded, connect: Connect
) -> None:
    talk = [f"On day {number} I planted tomatoes. {'They grow well. ' * 20}" for number in range(30)]
    async with connect(guarded.service, "dora") as client:
        for content in talk:
            await client.call_tool("remember", {"content": content})
        result = await client.call_tool("recall", {"question": "When did I plant tomatoes?"})
    text = result.content[0].text  # type: ignore[union-attr]  # as above
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    evidence = result.structured_content["evidence"]
    assert 6 < len(evidence) == len(lines)
    assert {item["message_id"]: item["content"] for item in evidence} == {line[0]: line[3] for line in lines}
    assert any(item["truncated"] for item in evidence)


async def test_pages_go_on_from_their_cursor(guarded: Guarded, connect: Connect) -> None:
    for tool, asked in (("messages_list", {}), ("lexical_search", {"query_text": "tomatoes"})):
        async with connect(guarded.reader, "ann") as client:
            first = await client.call_tool(tool, {**asked, "page_size": 4})
            cursor = first.structured_content["next_cursor"]
            second = await client.call_tool(tool, {**asked, "page_size": 4, "cursor": cursor})
        assert cursor
        assert len(ids(first)) == len(ids(second)) == 4
        assert not set(ids(first)) & set(ids(second))


async def test_a_search_finds_and_its_neighbours_are_read(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        found = await client.call_tool("search", {"query_text": "sister", "top_k": 3})
        around = await client.call_tool("neighbors", {"message_id": "a5", "before": 1, "after": 1})
    assert ids(found)[0] == "a9"
    assert ids(around) == ["a4", "a5", "a6"]


async def test_remembering_is_once_for_an_id_and_searchable(guarded: Guarded, connect: Connect) -> None:
    given = {"content": "Carl moved to Basel", "message_id": "c1", "said_at": "2024-05-01T08:00:00Z"}
    async with connect(guarded.service, "carl") as client:
        outcomes = [(await client.call_tool("remember", given)).structured_content["outcome"] for _ in range(2)]
        listed = await client.call_tool("messages_list", {})
    assert outcomes == ["created", "unchanged"]
    assert ids(listed) == ["c1"]
    assert listed.structured_content["messages"][0]["said_at"] == "2024-05-01T08:00:00Z"


async def test_unknown_tool_argument_error_lists_valid_arguments(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        refused = await client.call_tool("messages_list", {"limit": 3})
        within = await client.call_tool("search", {"query_text": "tea", "filter": {"user": "bob"}})
    assert said(refused) == 'not called: unknown argument "limit"; supported: since, until, role, page_size, cursor'
    assert said(within).startswith('not called: unknown argument "filter.user"; supported: query_text, filter, top_k')


async def test_remembered_message_is_searchable_immediately(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "dora") as client:
        for number in range(20):
            said_now = f"Dora put the number {number} on door {number}"
            stored = await client.call_tool("remember", {"content": said_now})
            for tool in ("search", "lexical_search"):
                found = await client.call_tool(tool, {"query_text": f"door {number}"})
                assert stored.structured_content["message_id"] in ids(found), tool


async def test_remember_retracts_earlier_messages_over_mcp(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "cleo") as client:
        for content, item, retracts in (("Cleo rides a horse", "c1", []), ("No, it is a mule", "c2", ["c1"])):
            given = {"content": content, "message_id": item, "retracts": retracts, "said_at": f"2024-05-0{item[1]}"}
            assert not (await client.call_tool("remember", given)).is_error
        listed = (await client.call_tool("messages_list", {})).structured_content["messages"]
        refused = await client.call_tool("remember", {"content": "x", "message_id": "c3", "retracts": ["c3"]})
        recalled = await client.call_tool("recall", {"question": "Does Cleo ride a horse?"})
    assert [(item["message_id"], item["retracts"], item["retracted_by"]) for item in listed] == [
        ("c2", ["c1"], ""),
        ("c1", [], "c2"),
    ]
    assert "must not contain the id of the message itself" in said(refused)
    assert '{"retracted_by":"c2"}' in recalled.content[0].text  # type: ignore[union-attr]  # as above


async def test_no_argument_names_another_user(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        for tool in READS[1:]:
            refused = await client.call_tool(tool, {"query_text": "canary", "message_id": "b0", "user_id": "bob"})
            assert "unknown" in said(refused)
        assert "NOT_FOUND" in said(await client.call_tool("neighbors", {"message_id": "b0"}))
        assert ids(await client.call_tool("lexical_search", {"query_text": "canary"})) == []


async def test_a_token_is_bound_to_its_own_user(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.token("bob"), None) as client:
        assert ids(await client.call_tool("messages_list", {})) == ["b0"]
    async with connect(guarded.token("bob"), "ann") as client:
        assert "PERMISSION_DENIED" in said(await client.call_tool("messages_list", {}))
        assert "PERMISSION_DENIED" in said(await client.call_tool("recall", {"question": "tomatoes?"}))


async def test_a_service_has_to_say_for_whom(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, None) as client:
        with pytest.raises(MCPError, match="no user id"):
            await client.list_tools()


async def test_bad_arguments_are_told_to_the_model(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        assert "page_size" in said(await client.call_tool("messages_list", {"page_size": 9_999}))
        assert "query_text" in said(await client.call_tool("lexical_search", {}))
        assert "cursor" in said(await client.call_tool("messages_list", {"cursor": "made up"}))
        assert "FAILED_PRECONDITION" in said(await client.call_tool("semantic_search", {"query_text": "vegetables"}))
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("remember", {"content": "no"})


async def test_a_refusal_is_told_to_programs_as_the_contract_does(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        refused = await client.call_tool("messages_list", {"cursor": "made up"})
        unread = await client.call_tool("messages_list", {"page_size": "many"})
    facts = (refused.meta or {})[REFUSAL]
    assert (facts["code"], facts["reason"]) == ("INVALID_ARGUMENT", "ERROR_REASON_CURSOR_MALFORMED")
    assert facts["violations"] == ["cursor"]
    assert facts["message"] in said(refused)
    assert (unread.meta or {})[REFUSAL]["reason"] == "ERROR_REASON_INVALID_FIELD"


async def test_resources_are_the_users_conversations_and_messages(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        conversation = (await client.read_resource(listed[0])).contents[0]
        message = (await client.read_resource("nomemory://messages/a9")).contents[0]
        for other in ("nomemory://messages/b0", "nomemory://conversations/none", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="resource not found"):
                await client.read_resource(other)
    assert listed == ["nomemory://conversations/garden"]
    assert [load["message_id"] for load in json.loads(conversation.text)] == [f"a{n}" for n in range(9)]  # type: ignore[union-attr]  # as above
    assert json.loads(message.text)["content"] == "My sister Lena is allergic to peanuts"  # type: ignore[union-attr]  # as above


async def test_the_prompt_teaches_the_grammar(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        (listed,) = (await client.list_prompts()).prompts
        prompt = await client.get_prompt(listed.name, {"question": "Who is allergic?"})
    text = prompt.messages[0].content.text  # type: ignore[union-attr]  # as above
    assert '"an exact phrase"' in text
    assert text.endswith("Who is allergic?")
