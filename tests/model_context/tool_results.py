"""Tool results of the MCP server, and the names of its tools."""

from __future__ import annotations

from mcp_types import CallToolResult

SEARCHES = ["search", "lexical_search", "semantic_search", "messages_list", "neighbors"]
READS = ["recall", "build_context", *SEARCHES]
WRITES = ["remember", "forget"]


def ids(result: CallToolResult) -> list[str]:
    """Return the ids of the messages in a result."""
    assert not result.is_error, result.content
    return [item["message_id"] for item in result.structured_content["messages"]]


def text_of(result: CallToolResult) -> str:
    """Return the text of a result, which the model reads."""
    return result.content[0].text  # type: ignore[union-attr]  # this server returns text


def error_of(result: CallToolResult) -> str:
    """Return the error message of a failed call."""
    assert result.is_error
    return text_of(result)
