"""ChatGPT's export: `conversations.json`, in which each conversation is a tree of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from nomemory.importing.message_builder import MessageDraft
from nomemory.importing.fields import Fields, Importer, parse_message, read_content, title_metadata
from nomemory.importing.record import ParseResult, Record

Object = Mapping[str, Any]

TIME_FROM: Final = "time_from"
"""The metadata key that tells where the time of a message without one was taken from."""

_NOT_SAID: Final = frozenset({"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"})
"""Kinds of content that the product keeps for itself."""


class ChatGPT(Importer):
    """Reads the branch of each conversation that the person saw last. Hidden and empty nodes are skipped."""

    name = "chatgpt"
    title = "ChatGPT export"
    required = "mapping: is required"

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a conversation by its tree."""
        return isinstance(value, dict) and isinstance(value.get("mapping"), dict)

    def messages(self, record: Record) -> Iterator[ParseResult]:
        """Return the messages of the current branch, from its root on."""
        fields = Fields(record.value)
        conversation = _Conversation(
            self.user,
            fields.text("conversation_id") or fields.text("id"),
            title_metadata(fields.text("title")),
            fields.moment("create_time"),
        )
        for message in _branch(record.value):
            yield parse_message(record.part(f"{conversation.id}, message {message.get('id')}", message), conversation.draft)


@dataclass(slots=True)
class _Conversation:
    """What the messages of a conversation have in common, and when the latest of them with a time was said."""

    user: str
    id: str
    about: Mapping[str, str]
    latest: datetime | None

    def draft(self, fields: Fields) -> MessageDraft | None:
        """Read the next message. Without a time it has that of the message before."""
        message = fields.value
        text, others = read_content(_parts(message))
        if _is_hidden(message) or not text.strip():
            return None
        ts = fields.moment("create_time", required=self.latest is None)
        borrowed = {} if ts or fields.reasons or self.latest is None else {TIME_FROM: "the message before"}
        self.latest = ts or self.latest
        return MessageDraft(
            user_id=self.user,
            ts=self.latest,
            role=_author(message, "role"),
            content=text,
            message_id=fields.text("id"),
            keeps_id=False,
            name=_author(message, "name"),
            conversation_id=self.id,
            metadata={**others, **borrowed, **self.about},
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
