"""Import ChatGPT exports. The file `conversations.json` has a tree of messages for each conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from nomemory.importing.fields import Importer, JsonFields, build_title_metadata, parse_message, read_content
from nomemory.importing.message_builder import ParsedMessage
from nomemory.importing.record import ParseResult, Record

Object = Mapping[str, Any]

TIME_FROM: Final = "time_from"
"""Metadata key for the source of the time, if the export contains no time for a message."""

_HIDDEN_CONTENT_TYPES: Final = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")
"""Content types that ChatGPT does not show to the user."""


class ChatGPTImporter(Importer):
    """Imports the current branch of each conversation in a ChatGPT export, without hidden and empty messages."""

    name = "chatgpt"
    title = "ChatGPT export"
    required = "mapping: is required"

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value has the message tree of a ChatGPT conversation."""
        return isinstance(value, dict) and isinstance(value.get("mapping"), dict)

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the messages of a conversation's current branch, from the first to the last."""
        fields = JsonFields(record.value)
        conversation = _ConversationState(
            self.user,
            fields.get_text("conversation_id") or fields.get_text("id"),
            build_title_metadata(fields.get_text("title")),
            fields.get_time("create_time"),
        )
        for message in _list_branch_messages(record.value):
            yield parse_message(
                record.create_child(f"{conversation.id}, message {message.get('id')}", message),
                conversation.build_message,
            )


@dataclass(slots=True)
class _ConversationState:
    """A conversation that is being parsed: fields that all its messages share, and the latest time so far."""

    user: str
    id: str
    metadata: Mapping[str, str]
    latest: datetime | None

    def build_message(self, fields: JsonFields) -> ParsedMessage | None:
        """Return the draft of the next message. A message without a time gets the time of the previous message."""
        message = fields.value
        text, non_text = read_content(_extract_content_parts(message))
        if _is_hidden(message) or not text.strip():
            return None
        ts = fields.get_time("create_time", required=self.latest is None)
        time_source = {} if ts or fields.reasons or self.latest is None else {TIME_FROM: "the message before"}
        self.latest = ts or self.latest
        return ParsedMessage(
            user_id=self.user,
            ts=self.latest,
            role=_read_author_field(message, "role"),
            content=text,
            message_id=fields.get_text("id"),
            keeps_id=False,
            name=_read_author_field(message, "name"),
            conversation_id=self.id,
            metadata={**non_text, **time_source, **self.metadata},
        )


def _list_branch_messages(conversation: Object) -> list[Object]:
    """Return the messages from the root of the tree to the current node."""
    mapping = conversation["mapping"]
    if not isinstance(mapping, dict):
        return []
    node_id = conversation.get("current_node") or _find_last_leaf(mapping)
    messages: list[Object] = []
    seen: set[object] = set()
    while isinstance(node_id, str) and node_id not in seen and isinstance(node := mapping.get(node_id), dict):
        seen.add(node_id)
        if isinstance(message := node.get("message"), dict):
            messages.append(message)
        node_id = node.get("parent")
    return messages[::-1]


def _find_last_leaf(mapping: Object) -> str | None:
    leaves = [key for key, node in mapping.items() if isinstance(node, dict) and not node.get("children")]
    return leaves[-1] if leaves else None


def _extract_content_parts(message: Object) -> object:
    content = message.get("content")
    if not isinstance(content, dict):
        return content
    return content["parts"] if "parts" in content else content.get("text")


def _is_hidden(message: Object) -> bool:
    """Return whether ChatGPT hid a message from the user, such as instructions, reasoning and tool input."""
    metadata, content = message.get("metadata"), message.get("content")
    is_flagged = isinstance(metadata, dict) and bool(metadata.get("is_visually_hidden_from_conversation"))
    is_hidden_type = isinstance(content, dict) and content.get("content_type") in _HIDDEN_CONTENT_TYPES
    return (
        is_flagged
        or is_hidden_type
        or message.get("weight") == 0
        or message.get("recipient", "all") not in ("all", None)
    )


def _read_author_field(message: Object, key: str) -> str:
    author = message.get("author")
    value = author.get(key) if isinstance(author, dict) else None
    return value if isinstance(value, str) else ""
