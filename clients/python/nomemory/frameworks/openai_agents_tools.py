"""The memory of one user as tools of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import FunctionTool, Tool
from agents.tool_context import ToolContext

from nomemory.frameworks.tools import MemoryTools


def agent_tools(tools: MemoryTools) -> list[Tool]:
    """Return the tools for an agent."""
    return [_tool(tools, function["name"], function) for function in tools.functions]


def _tool(tools: MemoryTools, name: str, function: dict[str, Any]) -> Tool:
    async def run(_context: ToolContext[Any], arguments: str) -> str:
        return await asyncio.to_thread(tools.call, name, arguments)

    return FunctionTool(
        name=name,
        description=function["description"],
        params_json_schema=function["parameters"],
        on_invoke_tool=run,
        strict_json_schema=False,
    )
