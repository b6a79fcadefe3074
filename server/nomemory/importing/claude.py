"""Claude's export: `conversations.json`, in which each conversation has its messages in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from nomemory.importing.message_builder import MessageDraft
from nomemory.importing.fields import NON_TEXT, Fields, Importer, parse_messages, read_content, title_metadata
from nomemory.importing.record import ParseResult, Record

_SPEAKERS: Final = {"human": "user"}


class Claude(Importer):
    """Reads `{uuid, name, chat_messages: [{uuid, sender, text, content, created_at}, …]}`.

    Of a message's parts only the texts were said; thoughts and calls of tools are named in the metadata.
    """

    name = "claude"
    title = "Claude export"
    required = "chat_messages: is required"

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a conversation by its messages."""
        return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)

    def messages(self, record: Record) -> Iterator[ParseResult]:
        """Return the messages of a conversation, in order."""
        conversation = Fields(record.value)
        conversation_id, about = conversation.text("uuid"), title_metadata(conversation.text("name"))
        draft = partial(self._draft, conversation_id, about)
        return parse_messages(record, record.value["chat_messages"], f"{conversation_id}, message", draft)

    def _draft(self, conversation_id: str, about: Mapping[str, str], fields: Fields) -> MessageDraft | None:
        text, left_out = _said(fields.value)
        if not text.strip():
            return None
        sender = fields.text("sender", required=True)
        return MessageDraft(
            user_id=self.user,
            ts=fields.moment("created_at", required=True),
            role=_SPEAKERS.get(sender, sender),
            content=text,
            message_id=fields.text("uuid"),
            keeps_id=False,
            conversation_id=conversation_id,
            metadata={**about, **left_out},
        )


def _said(message: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Return the texts of a message's parts, or its `text` where it has no parts; and a note of the other parts."""
    parts = message.get("content")
    if not isinstance(parts, list) or not parts:
        return read_content(message.get("text"))[0], {}
    texts = [part for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    kinds = [str(part.get("type")) for part in parts if isinstance(part, dict) and part.get("type") != "text"]
    kinds += ["attachment"] * bool(message.get("attachments")) + ["file"] * bool(message.get("files"))
    return read_content(texts)[0], {NON_TEXT: ", ".join(dict.fromkeys(kinds))} if kinds else {}
