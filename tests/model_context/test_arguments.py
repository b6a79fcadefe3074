"""The arguments of the MCP tools: their names, descriptions, filters and limits."""

from __future__ import annotations

from typing import Any

from mcp_types import Tool
from model_context.guarded import Connect, Guarded
from model_context.tool_results import error_of, ids


def arguments_of(tool: Tool) -> list[tuple[str, dict[str, Any]]]:
    """Return the arguments of a tool with their schemas, including those of nested objects."""
    properties = tool.input_schema["properties"]
    nested = [
        item for name in ("turns",) for item in properties.get(name, {}).get("items", {}).get("properties", {}).items()
    ]
    return [*properties.items(), *nested]


async def test_argument_descriptions_state_default_and_limits(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        tools = (await client.list_tools()).tools
    for tool in tools:
        required = {*tool.input_schema["required"], "text", "role"} if tool.name == "build_context" else set()
        for name, schema in arguments_of(tool):
            described, where = schema["description"], f"{tool.name}.{name}"
            limits = [schema, *([schema["items"]] if "items" in schema else [])]
            bounds = [limit[key] for limit in limits for key in ("maximum", "maxLength", "maxItems") if key in limit]
            assert all(f"{bound:,}" in described for bound in bounds), where
            assert described[0].isupper(), where
            assert described.endswith("."), where
            is_required = name in {*tool.input_schema["required"], *required}
            assert is_required or "Default: " in described, where


async def test_question_argument_is_named_query_in_all_tools(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        (prompt,) = (await client.list_prompts()).prompts
    for name in ("recall", "search", "lexical_search", "semantic_search"):
        assert next(iter(tools[name]["properties"])) == "query"
        assert not {"question", "query_text"} & tools[name]["properties"].keys()
    assert [argument.name for argument in prompt.arguments or []] == ["query"]


async def test_documented_roles_equal_the_accepted_ones(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "rolf") as client:
        tools = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
        roles = tools["remember"]["role"]["enum"]
        for role in roles:
            stored = await client.call_tool("remember", {"content": f"{role} speaks", "role": role})
            tool_result = await client.call_tool("messages_list", {"role": role})
            turn = await client.call_tool("build_context", {"turns": [{"role": role, "text": "speaks"}]})
            assert ids(tool_result) == [stored.structured_content["message_id"]]
            assert role == "user" or not turn.is_error or "turns" in error_of(turn)
        refused = [
            await client.call_tool(tool, {"query": "x", "content": "x", "role": "any"})
            for tool in ("search", "remember", "recall")
        ]
    offered = [schema["role"]["enum"] for schema in tools.values() if "role" in schema]
    assert offered == [roles] * 6
    assert tools["build_context"]["turns"]["items"]["properties"]["role"]["enum"] == roles
    assert roles == ["user", "assistant", "system", "tool"]
    for answer in refused:
        assert error_of(answer).startswith("not called: ")


async def test_filters_are_top_level_arguments_of_searches_and_lists(guarded: Guarded, connect: Connect) -> None:
    searches: tuple[tuple[str, dict[str, Any]], ...] = (
        ("search", {"query": "tomatoes"}),
        ("lexical_search", {"query": "tomatoes"}),
        ("messages_list", {}),
    )
    async with connect(guarded.service, "flora") as client:
        for number, conversation in enumerate(("office", "office", "kitchen", "garden")):
            stored = {"content": f"tomatoes {number}", "message_id": f"f{number}", "conversation_id": conversation}
            stored |= {"said_at": f"2026-01-0{number + 1}T09:00:00Z", "role": "assistant" if number == 1 else "user"}
            assert not (await client.call_tool("remember", stored)).is_error
        tool_result = {
            (tool, argument): sorted(ids(await client.call_tool(tool, {**call_arguments, argument: value})))
            for tool, call_arguments in searches
            for argument, value in (
                ("since", "2026-01-03T09:00:00Z"),
                ("until", "2026-01-02"),
                ("role", "ASSISTANT"),
                ("conversation_id", "office"),
                ("exclude_conversation_ids", ["office", "kitchen"]),
            )
        }
    expected = {
        "since": ["f2", "f3"],
        "until": ["f0"],
        "role": ["f1"],
        "conversation_id": ["f0", "f1"],
        "exclude_conversation_ids": ["f3"],
    }
    for (tool, argument), answered in tool_result.items():
        assert answered == expected[argument], (tool, argument)


async def test_unknown_tool_argument_error_lists_valid_arguments(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        refused = await client.call_tool("messages_list", {"limit": 3})
        nested = await client.call_tool("search", {"query": "tea", "filter": {"role": "user"}})
    filters = "since, until, role, conversation_id, exclude_conversation_ids"
    assert error_of(refused) == f'not called: unknown argument "limit"; supported: {filters}, page_size, cursor'
    assert error_of(nested) == f'not called: unknown argument "filter"; supported: query, {filters}, top_k'


async def test_argument_errors_are_returned_to_the_model(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.reader, "ann") as client:
        assert "page_size" in error_of(await client.call_tool("messages_list", {"page_size": 9_999}))
        assert "query" in error_of(await client.call_tool("lexical_search", {}))
        assert "cursor" in error_of(await client.call_tool("messages_list", {"cursor": "made up"}))
        assert "FAILED_PRECONDITION" in error_of(await client.call_tool("semantic_search", {"query": "vegetables"}))
