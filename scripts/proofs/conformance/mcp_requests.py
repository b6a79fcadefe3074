"""Conversion of the scenario's calls to MCP tool calls, if a tool supports them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proofs.conformance.play import Json

_FILTER: Final = {
    "filter.role": "role",
    "filter.timeRange.since": "since",
    "filter.timeRange.until": "until",
    "filter.conversationId": "conversation_id",
    "filter.excludeConversationIds": "exclude_conversation_ids",
}
_PAGE: Final = {"pageSize": "page_size", "cursor": "cursor"}
TOOLS: Final[Mapping[str, str]] = {
    "Recall": "recall",
    "BuildContext": "build_context",
    "HybridSearch": "search",
    "LexicalSearch": "lexical_search",
    "SemanticSearch": "semantic_search",
    "ListMessages": "messages_list",
    "GetNeighbors": "neighbors",
    "WriteMessages": "remember",
    "DeleteMessages": "forget",
}
"""Tool name of each RPC method."""
_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Recall": {
        "question": "query",
        "context.timeRange.since": "since",
        "context.timeRange.until": "until",
        "context.preferredRole": "role",
        "context.timeZone": "time_zone",
        "context.conversationId": "conversation_id",
        "skill": "skill",
    },
    "BuildContext": {
        "turns": "turns",
        "conversationId": "conversation_id",
        "maxTokens": "max_tokens",
        "timeZone": "time_zone",
        "excludeConversationIds": "exclude_conversation_ids",
    },
    "HybridSearch": {"queryText": "query", "topK": "top_k", **_FILTER},
    "LexicalSearch": {"queryText": "query", **_PAGE, **_FILTER},
    "SemanticSearch": {
        "queryText": "query",
        "queryEmbedding.values": "query_embedding",
        "topK": "top_k",
        "minScore": "min_score",
        **_FILTER,
    },
    "ListMessages": {**_PAGE, **_FILTER},
    "GetNeighbors": {"messageId": "message_id", "before": "before", "after": "after"},
    "WriteMessages": {
        "content": "content",
        "role": "role",
        "ts": "said_at",
        "conversationId": "conversation_id",
        "messageId": "message_id",
        "retracts": "retracts",
    },
    "DeleteMessages": {"messageIds": "message_ids"},
}
"""Tool argument of each request field, by RPC method."""
_IGNORED_FIELDS: Final = frozenset({"highlight", "explain", "includeTrace"})
"""Request fields that affect only reply fields which tools do not return."""
AT_LEAST: Final = "atLeast"
_BOUND_CALLS: Final = frozenset({"Recall", "BuildContext"})
"""Calls whose user is sent as metadata."""


class NoToolError(Exception):
    """Raised if no tool supports a step; the text states the reason."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call, and the user id of the MCP connection that makes it."""

    user_id: str
    tool: str
    arguments: Json


def build_tool_call(step: Json, request: Json) -> ToolCall:
    """Return the tool call for a step, without `atLeast`, for which the tools have no argument.

    Raises:
        NoToolError: no tool supports the step.
    """
    call = step["call"]
    if call not in TOOLS:
        raise NoToolError(f"the MCP server has no tool for {call}")
    fields = dict(_select_single_message(request) if call == "WriteMessages" else request)
    user_id = step.get("for", "") if call in _BOUND_CALLS else fields.pop("userId", "")
    if not user_id and (call not in _BOUND_CALLS or step["as"] == "service"):
        raise NoToolError("an MCP connection requires a user id")
    if call == "DeleteMessages" and not {"messageIds", "filter"} & fields.keys():
        raise NoToolError("DeleteMessages: the tool requires message ids")
    if call == "DeleteMessages" and "writeToken" in step.get("keep", {}).values():
        raise NoToolError("DeleteMessages: the tool returns no write token")
    if not str(step["request"].get(AT_LEAST, "$")).startswith("$"):
        raise NoToolError(f"{call}: the tool has no argument for {AT_LEAST}")
    return ToolCall(user_id, TOOLS[call], _build_tool_arguments(call, fields))


def _select_single_message(request: Json) -> Json:
    if len(request["messages"]) != 1:
        raise NoToolError("WriteMessages: the tool writes one message per call")
    return {**request["messages"][0], **{name: value for name, value in request.items() if name != "messages"}}


def _build_tool_arguments(call: str, fields: Json) -> Json:
    arguments: dict[str, Any] = {}
    for path, value in _iterate_leaf_fields(fields):
        if path.partition(".")[0] in _IGNORED_FIELDS | {AT_LEAST}:
            continue
        if path not in _ARGUMENTS[call]:
            raise NoToolError(f"{call}: the tool has no argument for {path}")
        arguments[_ARGUMENTS[call][path]] = _to_argument(value)
    return arguments


def _iterate_leaf_fields(fields: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _iterate_leaf_fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _to_argument(value: object) -> object:
    if isinstance(value, list):
        return list(map(_to_argument, value))
    if isinstance(value, Mapping):
        return {name: _to_argument(item) for name, item in value.items()}
    return value.removeprefix("ROLE_").lower() if isinstance(value, str) and value.startswith("ROLE_") else value
