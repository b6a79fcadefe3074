"""Generate OpenAI function definitions from the tools of `nomemory mcp`. With --check, write nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generated_page import write_or_check_page
from usage import show_help

from nomemory.mcp.tools import TOOLS, Tool
from nomemory.recall.tools.argument_schema import build_object_schema

FILE = Path(__file__).parent.parent / "clients/python/nomemory/frameworks/tools.json"


def render_definitions() -> str:
    """Return the definitions of all tools as JSON."""
    return json.dumps([_build_definition(tool) for tool in TOOLS.values()], ensure_ascii=False, indent=1) + "\n"


def _build_definition(tool: Tool) -> object:
    function = {"name": tool.name, "description": tool.description, "parameters": build_object_schema(tool.arguments)}
    return {"type": "function", "function": function}


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(write_or_check_page(FILE, render_definitions()))
