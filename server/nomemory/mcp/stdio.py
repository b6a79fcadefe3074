"""The MCP server on standard input and output, for one user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp.server.stdio import stdio_server

from nomemory.mcp.backend import Backend
from nomemory.mcp.credentials import BoundCaller
from nomemory.mcp.server import MemoryServer


async def serve_stdio(backend: Backend, bind: Callable[[], Awaitable[BoundCaller]], *, forget: bool) -> None:
    """Handle MCP requests until standard input ends.

    `bind` authenticates the caller and may raise the errors of `Backend.bind_caller`; `forget` offers the tool
    `forget`.
    """
    protocol = MemoryServer(backend, lambda _context: bind(), forget=forget).build_protocol_server()
    async with stdio_server() as (incoming, outgoing):
        await protocol.run(incoming, outgoing, protocol.create_initialization_options())
