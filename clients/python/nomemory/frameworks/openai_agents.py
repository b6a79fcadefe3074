"""For the OpenAI Agents SDK: a session whose items are messages of one user's memory, and the memory as tools."""

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
from nomemory.client.messages import role_name
from nomemory.frameworks.tools import MemoryTools
from nomemory.v1 import message_pb2

_PAGE: Final = 500
_TYPE: Final = "item_type"
"""The key of the metadata that marks a message as the JSON of an item, and has the item's type."""

_ROLES: Final[Mapping[str, RoleName]] = MappingProxyType(
    {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
)
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


class MemorySession(SessionABC):
    """A conversation of one user. What is said in it can be recalled in every other one.

    Items that are text are stored as what was said; others (a tool's call, its output, reasoning, a picture) as JSON
    under the role `tool`. Popping and clearing delete from the memory.

    Args:
        client: makes the calls; the caller closes it.
        user_id: whose conversation.
        session_id: the conversation's id; not empty, which would be all conversations.
        keep_others: whether items that are not text are stored. Without them a run that was interrupted in the midst of
            a tool's call cannot go on.
        session_settings: of the SDK; `limit` bounds what a run reads.

    Raises:
        ValueError: the session has no id.
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
            raise ValueError("a session has an id: without one it would be everything that the user said")
        self.session_id = session_id
        self.session_settings = session_settings
        self._client = client
        self._user_id = user_id
        self._keep_others = keep_others

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items, oldest first; all of them without a limit."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await asyncio.to_thread(self._latest, limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items, all or none of them.

        Raises:
            NoMemoryError: one is larger than a message may be, or the call did not succeed.
        """
        kept = [item for item in items if self._keep_others or _text_of(item)]
        await asyncio.to_thread(self._store, kept)

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the latest item from the memory and return it; None: there is none."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Delete the conversation from the memory."""
        await asyncio.to_thread(self._client.delete_matching, self._user_id, conversation_id=self.session_id)

    def _newest(self, page_size: int) -> Iterator[message_pb2.ChatMessage]:
        return self._client.iter_messages(self._user_id, conversation_id=self.session_id, page_size=page_size)

    def _latest(self, limit: int | None) -> list[TResponseInputItem]:
        if limit is not None and limit <= 0:
            return []
        newest = islice(self._newest(min(limit or _PAGE, _PAGE)), limit)
        return [_item(one) for one in newest][::-1]

    def _store(self, items: list[TResponseInputItem]) -> None:
        if items:
            self._client.write([_message(one, self._user_id, self.session_id) for one in items])

    def _pop(self) -> TResponseInputItem | None:
        for latest in self._newest(1):
            if self._client.delete(self._user_id, [latest.message_id]).deleted:
                return _item(latest)
        return None


def _message(item: TResponseInputItem, user_id: str, conversation_id: str) -> NewMessage:
    """Return the message that keeps an item. A text keeps its words and its role; anything else is kept as JSON."""
    said: NewMessage = {
        "user_id": user_id,
        "conversation_id": conversation_id,
        "role": "tool",
        "content": "",
    }
    fields = cast("Mapping[str, Any]", item)
    if text := _text_of(item):
        return {**said, "role": _ROLES[fields["role"]], "content": text}
    whole = json.dumps(item, ensure_ascii=False)
    return {**said, "content": whole, "metadata": {_TYPE: str(fields.get("type", "message"))}}


def _item(kept: message_pb2.ChatMessage) -> TResponseInputItem:
    """Return the item that a message keeps. One that was written by others than a session is a text."""
    if _TYPE in kept.metadata and (whole := _whole(kept.content)):
        return cast("TResponseInputItem", whole)
    return cast("TResponseInputItem", {"role": _speaker(kept.role), "content": kept.content})


def _text_of(item: TResponseInputItem) -> str:
    """Return what an item says; empty: it is not, or not only, text."""
    fields = cast("Mapping[str, Any]", item)
    content = fields.get("content")
    if fields.get("type", "message") != "message" or fields.get("role") not in _ROLES:
        return ""
    if isinstance(content, list):
        if any(part.get("type") not in _TEXTS for part in content):
            return ""
        content = "\n".join(part["text"] for part in content)
    return content if isinstance(content, str) and content.strip() else ""


def _whole(text: str) -> Mapping[str, Any] | None:
    """Return the item that a text is the JSON of; None: it is not one, whoever marked it as such."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _speaker(role: message_pb2.Role.ValueType) -> str:
    """Return the role of an item. What a tool said elsewhere must have no more weight than what a model says."""
    name = role_name(role)
    return name if name in _ROLES else "assistant"


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
