"""The memory of one user as tools of LangChain."""

from __future__ import annotations

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from nomemory.frameworks.tools import MemoryTools, ToolCallError


def langchain_tools(tools: MemoryTools) -> list[BaseTool]:
    """Return the tools for an agent. A call that is not carried out is an error that the model reads."""
    return [_tool(tools, function["name"], function) for function in tools.functions]


def _tool(tools: MemoryTools, name: str, function: dict[str, object]) -> BaseTool:
    def run(**arguments: object) -> str:
        try:
            return tools.run(name, arguments)
        except ToolCallError as refused:
            raise ToolException(str(refused)) from refused

    return StructuredTool(
        name=name,
        description=str(function["description"]),
        args_schema=function["parameters"],
        func=run,
        handle_tool_error=True,
    )
