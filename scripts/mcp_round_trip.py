"""An agent's first minute with a command that speaks the Model Context Protocol.

`python scripts/mcp_round_trip.py COMMAND [ARGUMENT …]` starts the command, stores a message, recalls it by other words
than it was said in, and corrects it. It needs nothing but what an installed NoMemory has.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp import StdioServerParameters
from mcp.client import Client
from usage import show_help

SAID = "My cat weighs six kilograms."
ASKED = "How heavy is my pet?"
CORRECTED = "No, my cat weighs five kilograms."


async def main(command: str, arguments: list[str]) -> None:
    """Store, find by meaning at once, recall, and take it back."""
    started = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(started) as client:
        stored = await client.call_tool("remember", {"content": SAID})
        if stored.is_error:
            raise SystemExit(f"remember: {stored.content}")
        found = await client.call_tool("semantic_search", {"query_text": ASKED})
        if SAID not in str(found.structured_content):
            raise SystemExit(f"semantic_search does not find it: {found.content}")
        view = await client.call_tool("recall", {"question": ASKED})
        if SAID not in str(view.structured_content):
            raise SystemExit(f"recall does not quote it: {view.content}")
        first = stored.structured_content["message_id"]
        await client.call_tool("remember", {"content": CORRECTED, "retracts": [first]})
        listed = (await client.call_tool("messages_list", {})).structured_content["messages"]
        if {item["message_id"] for item in listed if item["retracted_by"]} != {first}:
            raise SystemExit(f"what was taken back is not marked: {listed}")
    print(f"an agent stored a message, recalled it and corrected it: {' '.join([Path(command).name, *arguments])}")


if __name__ == "__main__":
    show_help(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
