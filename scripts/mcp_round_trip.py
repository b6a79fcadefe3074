"""Smoke test of an MCP server command: store, search, recall and correct a message.

`python scripts/mcp_round_trip.py COMMAND [ARGUMENT …]` starts the command and calls its tools as an agent would. The
question shares no noun or verb with the stored message. The script needs only the packages that NoMemory installs.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp import StdioServerParameters
from mcp.client import Client
from usage import show_help

STATEMENT = "My cat weighs six kilograms."
QUESTION = "How heavy is my pet?"
CORRECTION = "No, my cat weighs five kilograms."


async def main(command: str, arguments: list[str]) -> None:
    """Store a message, search for it, recall it, and retract it."""
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(parameters) as client:
        stored = await client.call_tool("remember", {"content": STATEMENT})
        if stored.is_error:
            raise SystemExit(f"remember: {stored.content}")
        hits = await client.call_tool("semantic_search", {"query": QUESTION})
        if STATEMENT not in str(hits.structured_content):
            raise SystemExit(f"semantic_search did not return the stored message: {hits.content}")
        view = await client.call_tool("recall", {"query": QUESTION})
        if STATEMENT not in str(view.structured_content):
            raise SystemExit(f"recall did not quote the stored message: {view.content}")
        first = stored.structured_content["message_id"]
        await client.call_tool("remember", {"content": CORRECTION, "retracts": [first]})
        listed = (await client.call_tool("messages_list", {})).structured_content["messages"]
        if {item["message_id"] for item in listed if item["retracted_by"]} != {first}:
            raise SystemExit(f"the retracted message is not marked as retracted: {listed}")
    print(f"an agent stored a message, recalled it and corrected it: {' '.join([Path(command).name, *arguments])}")


if __name__ == "__main__":
    show_help(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
