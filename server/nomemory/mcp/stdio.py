"""The MCP server on standard input and output, for one user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp.server.stdio import stdio_server

from nomemory.mcp.credentials import BoundCaller
from nomemory.mcp.memory import Memory
from nomemory.mcp.server import MemoryServer


async def serve(memory: Memory, bind: Callable[[], Awaitable[BoundCaller]]) -> None:
    """Answer until standard input ends.

    Args:
        memory: the server behind the tools.
        bind: says for whom; may raise what `Memory.bind` raises.
    """
    protocol = MemoryServer(memory, lambda _context: bind()).protocol()
    async with stdio_server() as (incoming, outgoing):
        await protocol.run(incoming, outgoing, protocol.create_initialization_options())
