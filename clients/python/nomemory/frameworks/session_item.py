"""An item of an agent's session as a message, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, cast

from agents import TResponseInputItem

from nomemory.client import NewMessage, RoleName
from nomemory.client.messages import role_name
from nomemory.v1 import message_pb2

TYPE: Final = "item_type"
"""The key of the metadata that marks a message as the JSON of an item, and has the item's type."""

_ROLES: Final[Mapping[str, RoleName]] = MappingProxyType(
    {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
)
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


def message(item: TResponseInputItem, user_id: str, conversation_id: str) -> NewMessage:
    """Return the message that keeps an item. A text keeps its words and its role; anything else is kept as JSON."""
    said: NewMessage = {
        "user_id": user_id,
        "conversation_id": conversation_id,
        "ts": datetime.now(UTC),
        "role": "tool",
        "content": "",
    }
    fields = cast("Mapping[str, Any]", item)
    if text := text_of(item):
        return {**said, "role": _ROLES[fields["role"]], "content": text}
    whole = json.dumps(item, ensure_ascii=False)
    return {**said, "content": whole, "metadata": {TYPE: str(fields.get("type", "message"))}}


def item(kept: message_pb2.ChatMessage) -> TResponseInputItem:
    """Return the item that a message keeps. One that was written by others than a session is a text."""
    if TYPE in kept.metadata and (whole := _whole(kept.content)):
        return cast("TResponseInputItem", whole)
    return cast("TResponseInputItem", {"role": _speaker(kept.role), "content": kept.content})


def text_of(item: TResponseInputItem) -> str:
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
