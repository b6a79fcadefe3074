"""Definitions of the search tools for planners: name, description, and JSON schema of the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from nomemory.recall.tools.argument_schema import Schema, build_object_schema
from nomemory.recall.tools.arguments import (
    Arguments,
    HybridArguments,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    SemanticArguments,
)


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """Definition of a search tool, as chat model APIs expect it."""

    name: str
    description: str
    arguments: type[Arguments]

    def build_schema(self) -> Schema:
        """Return the JSON schema of the tool's arguments."""
        return build_object_schema(self.arguments)


MESSAGES_LIST: Final = "messages_list"
LEXICAL_SEARCH: Final = "lexical_search"
SEMANTIC_SEARCH: Final = "semantic_search"
NEIGHBORS: Final = "neighbors"
HYBRID_SEARCH: Final = "hybrid_search"

TOOLS: Final[Mapping[str, ToolDefinition]] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            ToolDefinition(MESSAGES_LIST, "Read messages by time, newest first.", ListArguments),
            ToolDefinition(LEXICAL_SEARCH, "Find words and exact phrases, best first.", LexicalArguments),
            ToolDefinition(SEMANTIC_SEARCH, "Find what means the same, nearest first.", SemanticArguments),
            ToolDefinition(NEIGHBORS, "Read the messages around one of them, oldest first.", NeighborArguments),
        )
    }
)

CALLABLE_TOOLS: Final[Mapping[str, ToolDefinition]] = MappingProxyType(
    {
        **TOOLS,
        HYBRID_SEARCH: ToolDefinition(HYBRID_SEARCH, "Find what answers a question, best first.", HybridArguments),
    }
)
"""All callable tools: `TOOLS`, and `hybrid_search`, which is not offered to chat models."""
