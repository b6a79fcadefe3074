"""The calls of the scenario as calls of an MCP server's tools, where these can say what is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proofs.conformance.play import Json

_FILTER: Final = {
    "filter.role": "filter.role",
    "filter.timeRange.since": "filter.time_range.since",
    "filter.timeRange.until": "filter.time_range.until",
    "filter.conversationId": "filter.conversation_id",
}
_PAGE: Final = {"pageSize": "page_size", "cursor": "cursor"}
TOOLS: Final[Mapping[str, str]] = {
    "Recall": "recall",
    "HybridSearch": "search",
    "LexicalSearch": "lexical_search",
    "SemanticSearch": "semantic_search",
    "ListMessages": "messages_list",
    "GetNeighbors": "neighbors",
    "WriteMessages": "remember",
}
"""The tool that makes a call."""
_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Recall": {
        "question": "question",
        "context.timeRange.since": "since",
        "context.timeRange.until": "until",
        "context.preferredRole": "role",
        "context.timeZone": "time_zone",
        "context.conversationId": "conversation_id",
        "skill": "skill",
    },
    "HybridSearch": {"queryText": "query_text", "topK": "top_k", **_FILTER},
    "LexicalSearch": {"queryText": "query_text", **_PAGE, **_FILTER},
    "SemanticSearch": {
        "queryText": "query_text",
        "queryEmbedding.values": "query_embedding",
        "topK": "top_k",
        "minScore": "min_score",
        **_FILTER,
    },
    "ListMessages": {
        "filter.timeRange.since": "since",
        "filter.timeRange.until": "until",
        "filter.role": "role",
        **_PAGE,
    },
    "GetNeighbors": {"messageId": "message_id", "before": "before", "after": "after"},
    "WriteMessages": {
        "content": "content",
        "role": "role",
        "ts": "said_at",
        "conversationId": "conversation_id",
        "messageId": "message_id",
        "retracts": "retracts",
    },
}
"""Where what stands in a request stands in the arguments of its tool."""
_ONLY_SHOWN: Final = frozenset({"highlight", "explain", "includeTrace"})
"""Fields that change only what a reply has beside what a tool answers."""
AT_LEAST: Final = "atLeast"


class NoToolError(Exception):
    """No tool can say what a step asks. The text says what is missing."""


@dataclass(frozen=True)
class ToolCall:
    """A tool's call, and the user whom the connection names."""

    user_id: str
    tool: str
    arguments: Json


def tool_call(step: Json, request: Json) -> ToolCall:
    """Return the call that does what a step asks; what is waited for (`atLeast`) is left out.

    Raises:
        NoToolError: there is none.
    """
    call = step["call"]
    if call not in TOOLS:
        raise NoToolError(f"no tool for {call}")
    fields = dict(_one_message(request) if call == "WriteMessages" else request)
    user_id = step.get("for", "") if call == "Recall" else fields.pop("userId", "")
    if not user_id and (call != "Recall" or step["as"] == "service"):
        raise NoToolError("a connection names its user")
    if not str(step["request"].get(AT_LEAST, "$")).startswith("$"):
        raise NoToolError(f"{call}: no argument for {AT_LEAST}")
    return ToolCall(user_id, TOOLS[call], _arguments(call, fields))


def _one_message(request: Json) -> Json:
    if len(request["messages"]) != 1:
        raise NoToolError("WriteMessages: the tool takes one message")
    return {**request["messages"][0], **{name: value for name, value in request.items() if name != "messages"}}


def _arguments(call: str, fields: Json) -> Json:
    arguments: dict[str, Any] = {}
    for path, value in _leaves(fields):
        if path.partition(".")[0] in _ONLY_SHOWN | {AT_LEAST}:
            continue
        if path not in _ARGUMENTS[call]:
            raise NoToolError(f"{call}: no argument for {path}")
        _put(arguments, _ARGUMENTS[call][path].split("."), _plain(value))
    return arguments


def _leaves(fields: Json, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield above + name, value


def _put(into: dict[str, Any], path: list[str], value: object) -> None:
    *folders, name = path
    for folder in folders:
        into = into.setdefault(folder, {})
    into[name] = value


def _plain(value: object) -> object:
    return value.removeprefix("ROLE_").lower() if isinstance(value, str) and value.startswith("ROLE_") else value
