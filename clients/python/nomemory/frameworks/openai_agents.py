"""OpenAI Agents SDK adapter: a session and tools for the memory of one user."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, cast

from agents import FunctionTool, SessionSettings, Tool, TResponseInputItem
from agents.memory import SessionABC
from agents.tool_context import ToolContext

from nomemory.client import Client, NewMessage, RoleName
from nomemory.client.messages import to_role_name
from nomemory.frameworks.tools import MemoryTools
from nomemory.v1 import message_pb2

_PAGE: Final = 500
_ITEM_TYPE: Final = "item_type"
"""Metadata key for the item type of a message that contains an item as JSON."""

_ROLES: Final[Mapping[str, RoleName]] = MappingProxyType(
    {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
)
_TEXT_TYPES: Final = frozenset({"input_text", "output_text", "text"})


class MemorySession(SessionABC):
    """A session of the OpenAI Agents SDK that is stored as a conversation of a user.

    A text item is stored as a message with the same text. An item with other content, such as a tool call, tool output,
    reasoning or an image, is stored as JSON with the role `tool`. `pop_item` and `clear_session` delete messages.

    Args:
        client: the client for all calls, which the caller must close.
        user_id: the user who owns the conversation.
        session_id: the id of the conversation; must not be empty.
        keep_others: whether to store items that are not text. A run that was interrupted during a tool call can be
            resumed only if such items are stored.
        session_settings: settings of the SDK; `limit` is the maximum number of items to read.

    Raises:
        ValueError: `session_id` is empty.
    """

    def __init__(
        self,
        client: Client,
        user_id: str,
        session_id: str,
        *,
        keep_others: bool = True,
        session_settings: SessionSettings | None = None,
    ) -> None:
        if not session_id:
            raise ValueError("session_id must not be empty")
        self.session_id = session_id
        self.session_settings = session_settings
        self._client = client
        self._user_id = user_id
        self._keep_others = keep_others

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items of the session, oldest first.

        The default limit is `session_settings.limit`. If neither limit is set, all items are returned.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await asyncio.to_thread(self._read_latest_items, limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items to the session. Either all items are stored or none.

        Raises:
            NoMemoryError: an item is too large, or the call failed.
        """
        kept = [item for item in items if self._keep_others or _extract_item_text(item)]
        await asyncio.to_thread(self._write_items, kept)

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the latest item of the session and return it; None if the session is empty."""
        return await asyncio.to_thread(self._delete_latest_item)

    async def clear_session(self) -> None:
        """Delete all messages of the conversation."""
        await asyncio.to_thread(self._client.delete_matching, self._user_id, conversation_id=self.session_id)

    def _iterate_newest_messages(self, page_size: int) -> Iterator[message_pb2.ChatMessage]:
        return self._client.iter_messages(self._user_id, conversation_id=self.session_id, page_size=page_size)

    def _read_latest_items(self, limit: int | None) -> list[TResponseInputItem]:
        if limit is not None and limit <= 0:
            return []
        newest = islice(self._iterate_newest_messages(min(limit or _PAGE, _PAGE)), limit)
        return [_to_item(message) for message in newest][::-1]

    def _write_items(self, items: list[TResponseInputItem]) -> None:
        if items:
            self._client.write([_to_message(item, self._user_id, self.session_id) for item in items])

    def _delete_latest_item(self) -> TResponseInputItem | None:
        for latest in self._iterate_newest_messages(1):
            if self._client.delete(self._user_id, [latest.message_id]).deleted:
                return _to_item(latest)
        return None


def _to_message(item: TResponseInputItem, user_id: str, conversation_id: str) -> NewMessage:
    """Convert an item to a message. The content of the message is the item's text, or JSON if the item is not text."""
    message: NewMessage = {
        "user_id": user_id,
        "conversation_id": conversation_id,
        "role": "tool",
        "content": "",
    }
    fields = cast("Mapping[str, Any]", item)
    if text := _extract_item_text(item):
        return {**message, "role": _ROLES[fields["role"]], "content": text}
    content = json.dumps(item, ensure_ascii=False)
    return {**message, "content": content, "metadata": {_ITEM_TYPE: str(fields.get("type", "message"))}}


def _to_item(message: message_pb2.ChatMessage) -> TResponseInputItem:
    """Convert a message to an item. A message that no session has written becomes a text item."""
    if _ITEM_TYPE in message.metadata and (item := _parse_item(message.content)):
        return cast("TResponseInputItem", item)
    return cast("TResponseInputItem", {"role": _choose_item_role(message.role), "content": message.content})


def _extract_item_text(item: TResponseInputItem) -> str:
    """Return the text of an item; empty if the item contains anything but text."""
    fields = cast("Mapping[str, Any]", item)
    content = fields.get("content")
    if fields.get("type", "message") != "message" or fields.get("role") not in _ROLES:
        return ""
    if isinstance(content, list):
        if any(part.get("type") not in _TEXT_TYPES for part in content):
            return ""
        content = "\n".join(part["text"] for part in content)
    return content if isinstance(content, str) and content.strip() else ""


def _parse_item(text: str) -> Mapping[str, Any] | None:
    """Parse an item from JSON; return None if the text is not a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _choose_item_role(role: message_pb2.Role.ValueType) -> str:
    """Return the role of an item.

    A tool message gets the role `assistant`, so that it has no more authority than the model.
    """
    name = to_role_name(role)
    return name if name in _ROLES else "assistant"


def agent_tools(tools: MemoryTools) -> list[Tool]:
    """Return function tools for an agent of the OpenAI Agents SDK."""
    return [_to_agent_tool(tools, function["name"], function) for function in tools.functions]


def _to_agent_tool(tools: MemoryTools, name: str, function: dict[str, Any]) -> Tool:
    async def run(_context: ToolContext[Any], arguments: str) -> str:
        return await asyncio.to_thread(tools.call, name, arguments)

    return FunctionTool(
        name=name,
        description=function["description"],
        params_json_schema=function["parameters"],
        on_invoke_tool=run,
        strict_json_schema=False,
    )
