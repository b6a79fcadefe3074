"""The MCP server on standard input and output, for one user."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from nomemory.mcp.memory import Credential, Memory
from nomemory.mcp.server import MemoryServer


async def serve(memory: Memory, credential: Credential) -> None:
    """Answer until standard input ends."""
    protocol = MemoryServer(memory, lambda _context: memory.bind(credential)).protocol()
    async with stdio_server() as (incoming, outgoing):
        await protocol.run(incoming, outgoing, protocol.create_initialization_options())
