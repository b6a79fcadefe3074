"""The tool `forget` deletes messages of the bound user, and is offered only where it is permitted."""

from __future__ import annotations

import json
import os

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from model_context.guarded import NOMEMORY, Connect, Guarded, command
from model_context.tool_results import READS, error_of, ids, text_of


async def test_forget_deletes_the_named_messages_of_the_bound_user(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "gwen") as client:
        for number in range(3):
            call_arguments = {"content": f"secret number {number}", "message_id": f"g{number}"}
            assert not (await client.call_tool("remember", call_arguments)).is_error
        forgotten = await client.call_tool("forget", {"message_ids": ["g0", "g2", "b0", "gone"]})
        again = await client.call_tool("forget", {"message_ids": ["g0"]})
        listed = await client.call_tool("messages_list", {})
        tool_result = await client.call_tool("lexical_search", {"query": "secret"})
    assert forgotten.structured_content == {"deleted": 2, "missing_message_ids": ["b0", "gone"]}
    assert json.loads(text_of(forgotten)) == forgotten.structured_content
    assert again.structured_content == {"deleted": 0, "missing_message_ids": ["g0"]}
    assert ids(listed) == ids(tool_result) == ["g1"]
    async with connect(guarded.reader, "bob") as client:
        assert ids(await client.call_tool("messages_list", {})) == ["b0"]


def test_forget_is_not_offered_over_http_if_disabled(guarded: Guarded) -> None:
    variables = {**guarded.environment(guarded.service), "NOMEMORY_MCP_FORGET": "false", "PATH": os.environ["PATH"]}
    del variables["NOMEMORY_API_KEY"]
    with command(variables, "--http", "127.0.0.1:0") as url:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        headers = {
            "authorization": f"Bearer {guarded.service}",
            "x-user-id": "ann",
            "accept": "application/json, text/event-stream",
        }
        reply = httpx2.post(url, json=body, headers=headers, timeout=30).json()
    assert [tool["name"] for tool in reply["result"]["tools"]] == [*READS, "remember"]


async def test_disabled_forget_is_not_offered_and_cannot_be_called(guarded: Guarded) -> None:
    variables = {**guarded.environment(guarded.service), "NOMEMORY_MCP_FORGET": "false"}
    parameters = StdioServerParameters(command=NOMEMORY, args=["mcp", "--user", "ann"], env=variables)
    async with Client(parameters) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*READS, "remember"]
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("forget", {"message_ids": ["a0"]})
        assert len(ids(await client.call_tool("messages_list", {}))) == 10


async def test_forget_rejects_missing_and_too_many_ids(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        for message_ids in ([], ["a0"] * 101, "a0"):
            assert error_of(await client.call_tool("forget", {"message_ids": message_ids})).startswith(
                "not called: message_ids"
            )
        assert "unknown" in error_of(await client.call_tool("forget", {"message_ids": ["a0"], "user_id": "bob"}))
        assert "message_ids" in error_of(await client.call_tool("forget", {}))
        assert len(ids(await client.call_tool("messages_list", {}))) == 10
