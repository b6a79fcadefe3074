"""The tool `forget` deletes messages of the bound user."""

from __future__ import annotations

import json

from model_context.guarded import Connect, Guarded
from model_context.tool_results import error_of, ids, text_of


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


async def test_forget_rejects_missing_and_too_many_ids(guarded: Guarded, connect: Connect) -> None:
    async with connect(guarded.service, "ann") as client:
        for message_ids in ([], ["a0"] * 101, "a0"):
            assert error_of(await client.call_tool("forget", {"message_ids": message_ids})).startswith(
                "not called: message_ids"
            )
        assert "unknown" in error_of(await client.call_tool("forget", {"message_ids": ["a0"], "user_id": "bob"}))
        assert "message_ids" in error_of(await client.call_tool("forget", {}))
        assert len(ids(await client.call_tool("messages_list", {}))) == 10
