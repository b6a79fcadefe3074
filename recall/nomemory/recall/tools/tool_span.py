"""A call of a tool as a span, by the conventions of OpenTelemetry for generative AI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from opentelemetry.trace import Span

from nomemory.recall.model.result import JsonValue
from nomemory.recall.tools.bound_tools import BoundTools
from nomemory.recall.tools.definitions import CALLABLE
from nomemory.recall.tools.result import ToolResult
from nomemory.spans.span import show, shows_content, span

_UNKNOWN: Final = "unknown"
"""A tool that does not exist may have any name: a chat model has made it up."""


async def call_in_span(
    tools: BoundTools, tool: str, arguments: Mapping[str, JsonValue], timeout_s: float
) -> ToolResult:
    """Call a tool.

    Raises:
        as `BoundTools.call`.
    """
    name = tool if tool in CALLABLE else _UNKNOWN
    with span(f"execute_tool {name}") as made:
        result = await tools.call(tool, arguments, timeout_s)
        if made is not None:
            _note(made, name, result)
        return result


def _note(made: Span, name: str, result: ToolResult) -> None:
    made.set_attributes(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "datastore",
            "gen_ai.memory.record.count": len(result.items),
            "nomemory.tool.answered": result.answered,
        }
    )
    if shows_content():
        show(made, "gen_ai.tool.call.arguments", json.dumps(dict(result.arguments), ensure_ascii=False, default=str))
