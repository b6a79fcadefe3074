"""ChatGPT's export: `conversations.json`, in which each conversation is a tree of messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from nomemory.importing.draft import METADATA_VALUE_CHARS, NO_USER, Draft, Parsed, Place, Record, Refused, Skipped
from nomemory.importing.fields import Fields, read_content

Object = dict[str, object]

TIME_FROM: Final = "time_from"
"""The metadata key that tells where the time of a message without one was taken from."""

_NOT_SAID: Final = frozenset({"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"})
"""Kinds of content that the product keeps for itself."""


@dataclass(frozen=True, slots=True)
class _Conversation:
    """What the messages of a conversation have in common."""

    id: str
    title: str
    began: datetime | None


class ChatGPT:
    """Reads the branch of each conversation that the person saw last. Hidden and empty nodes are skipped.

    Args:
        user: the user of every message.
    """

    name = "chatgpt"
    title = "ChatGPT export"

    def __init__(self, user: str) -> None:
        self._user = user

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a conversation by its tree."""
        return isinstance(value, dict) and isinstance(value.get("mapping"), dict)

    def parse(self, record: Record) -> Iterator[Parsed]:
        """Return the messages of the current branch, from its root on."""
        if not self._user:
            yield Refused(record.place, record.original, (NO_USER,))
            return
        if not isinstance(record.value, dict) or not isinstance(record.value.get("mapping"), dict):
            yield Refused(record.place, record.original, ("mapping: is required",))
            return
        conversation = _conversation(record.value)
        before = conversation.began
        for message in _branch(record.value):
            place = replace(record.place, within=f"{conversation.id}, message {message.get('id')}")
            parsed, before = self._message(place, message, conversation, before)
            yield parsed

    def _message(
        self, place: Place, message: Object, conversation: _Conversation, before: datetime | None
    ) -> tuple[Parsed, datetime | None]:
        """Return what becomes of a message, and the time for the next one if that carries none."""
        content = read_content(_parts(message))
        if _is_hidden(message) or not content.text.strip():
            return Skipped(place), before
        fields = Fields(message)
        ts = fields.moment("create_time", required=before is None)
        borrowed = {} if ts or fields.reasons or before is None else {TIME_FROM: "the message before"}
        draft = Draft(
            user_id=self._user,
            ts=ts or before,
            role=_author(message, "role"),
            content=content.text,
            message_id=fields.text("id"),
            keeps_id=False,
            name=_author(message, "name"),
            conversation_id=conversation.id,
            metadata={**content.metadata, **borrowed, **_title(conversation)},
            reasons=tuple(fields.reasons),
        )
        return draft.finish(place, message), ts or before


def _conversation(value: Object) -> _Conversation:
    fields = Fields(value)
    return _Conversation(
        id=fields.text("conversation_id") or fields.text("id"),
        title=fields.text("title"),
        began=fields.moment("create_time"),
    )


def _branch(conversation: Object) -> list[Object]:
    """Walk from the current node up to the root, and give the messages on the way, root first."""
    mapping = conversation["mapping"]
    if not isinstance(mapping, dict):
        return []
    node_id = conversation.get("current_node") or _last_leaf(mapping)
    messages: list[Object] = []
    seen: set[object] = set()
    while isinstance(node_id, str) and node_id not in seen and isinstance(node := mapping.get(node_id), dict):
        seen.add(node_id)
        if isinstance(message := node.get("message"), dict):
            messages.append(message)
        node_id = node.get("parent")
    return messages[::-1]


def _last_leaf(mapping: Object) -> str | None:
    leaves = [key for key, node in mapping.items() if isinstance(node, dict) and not node.get("children")]
    return leaves[-1] if leaves else None


def _parts(message: Object) -> object:
    content = message.get("content")
    if not isinstance(content, dict):
        return content
    return content["parts"] if "parts" in content else content.get("text")


def _is_hidden(message: Object) -> bool:
    """Return whether a message was never shown: instructions, thoughts, and what went to a tool."""
    metadata, content = message.get("metadata"), message.get("content")
    hidden = isinstance(metadata, dict) and bool(metadata.get("is_visually_hidden_from_conversation"))
    kept_back = isinstance(content, dict) and content.get("content_type") in _NOT_SAID
    return hidden or kept_back or message.get("weight") == 0 or message.get("recipient", "all") not in {"all", None}


def _author(message: Object, key: str) -> str:
    author = message.get("author")
    value = author.get(key) if isinstance(author, dict) else None
    return value if isinstance(value, str) else ""


def _title(conversation: _Conversation) -> dict[str, str]:
    return {"conversation_title": conversation.title[:METADATA_VALUE_CHARS]} if conversation.title else {}
