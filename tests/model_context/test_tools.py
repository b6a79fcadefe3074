"""Tests for the tools: availability by scope, results and users."""

from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError
from model_context.guarded import Connect, Guarded
from model_context.tool_results import READS, SEARCHES, WRITES, error_of, ids, text_of

from nomemory.mcp.server import REFUSAL


async def test_caller_is_offered_the_tools_that_its_scopes_permit(guarded: Guarded, connect: Connect) -> None:
    every = [*READS, *WRITES]
    offered = {guarded.service: every, guarded.reader: SEARCHES, guarded.recaller: [], guarded.token("ann"): READS}
    for credential, names in offered.items():
        async with connect(credential, "ann") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == names


async def test_tools_are_described_and_have_no_user_argument(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        tools = (await client.list_tools()).tools
    for tool in tools:
        assert tool.annotations
        assert tool.annotations.read_only_hint == (tool.name not in WRITES)
        assert tool.annotations.destructive_hint == (tool.name == "forget")
        assert tool.annotations.idempotent_hint == (tool.name != "remember")
        assert not [name for name in tool.input_schema["properties"] if "user" in name], tool.name
        assert tool.output_schema
        assert tool.output_schema["type"] == "object"


async def test_the_text_of_a_recall_starts_with_its_verdict(guarded: Guarded, connect: Connect) -> None:
    questions = ("What is Lena allergic to?", "Which motorbike do I own?")
    async with connect(guarded.service, "ann") as client:
        answers = [await client.call_tool("recall", {"query": question}) for question in questions]
    for answer in answers:
        text = text_of(answer)
        assert text.startswith(f"Verdict: {answer.structured_content['verdict']} (the messages ")


async def test_call_without_the_scope_names_the_scope(guarded: Guarded, connect: Connect) -> None:
    scopes = {"recall": "recall", "build_context": "recall", "remember": "ingest", "forget": "ingest"}
    async with connect(guarded.reader, "ann") as client:
        for tool, scope in scopes.items():
            with pytest.raises(MCPError, match=f"the tool {tool} requires the scope {scope}"):
                await client.call_tool(tool, {})
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("forget_everything", {})


async def test_long_chinese_message_is_truncated_and_readable_as_a_resource(guarded: Guarded, connect: Connect) -> None:
    content = "我不吃辣。" * 1_000
    async with connect(guarded.service, "张伟") as client:
        await client.call_tool("remember", {"content": content, "message_id": "z/1"})
        tool_result = await client.call_tool("lexical_search", {"query": "不吃辣"})
        (item,) = tool_result.structured_content["messages"]
        whole = (await client.read_resource("nomemory://messages/z%2F1")).contents[0]
        recalled = await client.call_tool("recall", {"query": "我吃辣吗？"})
        empty = await client.call_tool("lexical_search", {"query": "摩托车"})
    assert (len(item["content"]), item["truncated"]) == (4_000, True)
    assert json.loads(whole.text)["content"] == content  # type: ignore[union-attr]  # as above
    assert "我不吃辣" in text_of(recalled)
    assert empty.structured_content["messages"] == []


async def test_recall_quotes_messages_verbatim(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        result = await client.call_tool("recall", {"query": "What is Lena allergic to?"})
    view = result.structured_content
    lines = [*view["preferences"], *view["profile"], *view["constraints"]]
    assert any(
        quote["message_id"] == "a9" and "peanuts" in quote["quote"] for line in lines for quote in line["citations"]
    )
    assert view["verdict"] in {"supported", "insufficient"}
    assert "allergic to peanuts" in text_of(result)


async def test_context_has_related_messages_within_its_token_limit(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        turns = [{"role": "user", "text": "What is Lena allergic to?"}]
        result = await client.call_tool("build_context", {"turns": turns, "max_tokens": 400})
        refused = await client.call_tool("build_context", {})
    answer = result.structured_content
    assert answer is not None, error_of(result)
    assert any("allergic" in message["content"] for message in answer["related"])
    assert answer["token_count"] <= 400
    assert "turns: must not be empty" in error_of(refused)


async def test_recall_text_and_structured_content_have_the_same_truncated_evidence(
    guarded: Guarded, connect: Connect
) -> None:
    talk = [f"On day {number} I planted tomatoes. {'They grow well. ' * 20}" for number in range(30)]
    async with connect(guarded.service, "dora") as client:
        for content in talk:
            await client.call_tool("remember", {"content": content})
        result = await client.call_tool("recall", {"query": "When did I plant tomatoes?"})
    text = text_of(result)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    evidence = result.structured_content["evidence"]
    assert 6 < len(evidence) == len(lines)
    assert {item["message_id"]: item["content"] for item in evidence} == {line[0]: line[3] for line in lines}
    assert any(item["truncated"] for item in evidence)


async def test_pages_continue_at_their_cursor(guarded: Guarded, connect: Connect) -> None:
    for tool, call_arguments in (("messages_list", {}), ("lexical_search", {"query": "tomatoes"})):
        async with connect(guarded.reader, "ann") as client:
            first = await client.call_tool(tool, {**call_arguments, "page_size": 4})
            cursor = first.structured_content["next_cursor"]
            second = await client.call_tool(tool, {**call_arguments, "page_size": 4, "cursor": cursor})
        assert cursor
        assert len(ids(first)) == len(ids(second)) == 4
        assert not set(ids(first)) & set(ids(second))


async def test_search_result_neighbors_can_be_read(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        tool_result = await client.call_tool("search", {"query": "sister", "top_k": 3})
        around = await client.call_tool("neighbors", {"message_id": "a5", "before": 1, "after": 1})
    assert ids(tool_result)[0] == "a9"
    assert ids(around) == ["a4", "a5", "a6"]


async def test_remember_with_the_same_id_stores_one_searchable_message(guarded: Guarded, connect: Connect) -> None:
    call_arguments = {"content": "Carl moved to Basel", "message_id": "c1", "said_at": "2024-05-01T08:00:00Z"}
    async with connect(guarded.service, "carl") as client:
        outcomes = [
            (await client.call_tool("remember", call_arguments)).structured_content["outcome"] for _ in range(2)
        ]
        listed = await client.call_tool("messages_list", {})
    assert outcomes == ["created", "unchanged"]
    assert ids(listed) == ["c1"]
    assert listed.structured_content["messages"][0]["said_at"] == "2024-05-01T08:00:00Z"


async def test_remembered_message_is_searchable_immediately(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "dora") as client:
        for number in range(10):
            said_now = f"Dora put the number {number} on door {number}"
            stored = await client.call_tool("remember", {"content": said_now})
            for tool in ("search", "lexical_search"):
                tool_result = await client.call_tool(tool, {"query": f"door {number}"})
                assert stored.structured_content["message_id"] in ids(tool_result), tool


async def test_remember_retracts_earlier_messages_over_mcp(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "cleo") as client:
        for content, item, retracts in (("Cleo rides a horse", "c1", []), ("No, it is a mule", "c2", ["c1"])):
            call_arguments = {
                "content": content,
                "message_id": item,
                "retracts": retracts,
                "said_at": f"2024-05-0{item[1]}",
            }
            assert not (await client.call_tool("remember", call_arguments)).is_error
        listed = (await client.call_tool("messages_list", {})).structured_content["messages"]
        refused = await client.call_tool("remember", {"content": "x", "message_id": "c3", "retracts": ["c3"]})
        recalled = await client.call_tool("recall", {"query": "Does Cleo ride a horse?"})
    assert [(item["message_id"], item["retracts"], item["retracted_by"]) for item in listed] == [
        ("c2", ["c1"], ""),
        ("c1", [], "c2"),
    ]
    assert "must not contain the id of the message itself" in error_of(refused)
    assert '{"retracted_by":"c2"}' in text_of(recalled)


async def test_tool_arguments_cannot_select_another_user(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        for tool in READS[1:]:
            refused = await client.call_tool(tool, {"query": "canary", "message_id": "b0", "user_id": "bob"})
            assert "unknown" in error_of(refused)
        assert "NOT_FOUND" in error_of(await client.call_tool("neighbors", {"message_id": "b0"}))
        assert ids(await client.call_tool("lexical_search", {"query": "canary"})) == []


async def test_token_is_bound_to_its_user(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.token("bob"), None) as client:
        assert ids(await client.call_tool("messages_list", {})) == ["b0"]
    async with connect(guarded.token("bob"), "ann") as client:
        assert "PERMISSION_DENIED" in error_of(await client.call_tool("messages_list", {}))
        assert "PERMISSION_DENIED" in error_of(await client.call_tool("recall", {"query": "tomatoes?"}))


async def test_service_must_name_the_user(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, None) as client:
        with pytest.raises(MCPError, match="no user id"):
            await client.list_tools()


async def test_rejection_metadata_has_code_reason_and_violations(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        refused = await client.call_tool("messages_list", {"cursor": "made up"})
        unread = await client.call_tool("messages_list", {"page_size": "many"})
    facts = (refused.meta or {})[REFUSAL]
    assert (facts["code"], facts["reason"]) == ("INVALID_ARGUMENT", "ERROR_REASON_CURSOR_MALFORMED")
    assert facts["violations"] == ["cursor"]
    assert facts["message"] in error_of(refused)
    assert (unread.meta or {})[REFUSAL]["reason"] == "ERROR_REASON_INVALID_FIELD"


async def test_resources_list_conversations_and_messages_of_the_user(guarded: Guarded, connect: Connect) -> None:
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


async def test_prompt_explains_the_query_syntax(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        (listed,) = (await client.list_prompts()).prompts
        prompt = await client.get_prompt(listed.name, {"query": "Who is allergic?"})
    text = prompt.messages[0].content.text  # type: ignore[union-attr]  # as above
    assert '"an exact phrase"' in text
    assert text.endswith("Who is allergic?")
