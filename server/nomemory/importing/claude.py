"""Claude's export: `conversations.json`, in which each conversation has its messages in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from nomemory.importing.draft import METADATA_VALUE_CHARS, NO_USER, Draft, Parsed, Place, Record, Refused, Skipped
from nomemory.importing.fields import NON_TEXT, Fields, read_content

_SPEAKERS: Final = {"human": "user"}


class Claude:
    """Reads `{uuid, name, chat_messages: [{uuid, sender, text, content, created_at}, …]}`.

    Of a message's parts only the texts were said; thoughts and calls of tools are named in the metadata.

    Args:
        user: the user of every message.
    """

    name = "claude"
    title = "Claude export"

    def __init__(self, user: str) -> None:
        self._user = user

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a conversation by its messages."""
        return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)

    def parse(self, record: Record) -> Iterator[Parsed]:
        """Return the messages of a conversation, in order."""
        if not self._user:
            yield Refused(record.place, record.original, (NO_USER,))
            return
        if not isinstance(record.value, dict) or not isinstance(record.value.get("chat_messages"), list):
            yield Refused(record.place, record.original, ("chat_messages: is required",))
            return
        conversation = Fields(record.value)
        conversation_id, title = conversation.text("uuid"), conversation.text("name")
        metadata = {"conversation_title": title[:METADATA_VALUE_CHARS]} if title else {}
        for number, message in enumerate(record.value["chat_messages"], 1):
            place = replace(record.place, within=f"{conversation_id}, message {number}")
            yield self._message(place, message, conversation_id, metadata)

    def _message(self, place: Place, message: object, conversation_id: str, metadata: Mapping[str, str]) -> Parsed:
        if not isinstance(message, dict):
            return Refused(place, message, ("is not a JSON object",))
        fields = Fields(message)
        text, left_out = _said(message)
        if not text.strip():
            return Skipped(place)
        sender = fields.text("sender", required=True)
        return Draft(
            user_id=self._user,
            ts=fields.moment("created_at", required=True),
            role=_SPEAKERS.get(sender, sender),
            content=text,
            message_id=fields.text("uuid"),
            keeps_id=False,
            conversation_id=conversation_id,
            metadata={**metadata, **left_out},
            reasons=tuple(fields.reasons),
        ).finish(place, message)


def _said(message: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Return the texts of a message's parts, or its `text` where it has no parts; and a note of the other parts."""
    parts = message.get("content")
    if not isinstance(parts, list) or not parts:
        return read_content(message.get("text")).text, {}
    texts = [part for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    kinds = [str(part.get("type")) for part in parts if isinstance(part, dict) and part.get("type") != "text"]
    kinds += ["attachment"] * bool(message.get("attachments")) + ["file"] * bool(message.get("files"))
    return read_content(texts).text, {NON_TEXT: ", ".join(dict.fromkeys(kinds))} if kinds else {}
