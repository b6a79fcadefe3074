"""Import Claude exports. The file `conversations.json` has a list of messages for each conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from nomemory.importing.fields import NON_TEXT, Importer, JsonFields, build_title_metadata, parse_messages, read_content
from nomemory.importing.message_builder import ParsedMessage
from nomemory.importing.record import ParseResult, Record

_ROLES_BY_SENDER: Final = {"human": "user"}


class ClaudeImporter(Importer):
    """Importer of Claude exports, `{uuid, name, chat_messages: [{uuid, sender, text, content, created_at}, …]}`.

    The content of a message consists of its text parts. The metadata lists the types of the other parts.
    """

    name = "claude"
    title = "Claude export"
    required = "chat_messages: is required"

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value has the message list of a Claude conversation."""
        return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the messages of a conversation, in order."""
        conversation = JsonFields(record.value)
        conversation_id, metadata = conversation.get_text("uuid"), build_title_metadata(conversation.get_text("name"))
        draft = partial(self._build_message, conversation_id, metadata)
        return parse_messages(record, record.value["chat_messages"], f"{conversation_id}, message", draft)

    def _build_message(
        self, conversation_id: str, metadata: Mapping[str, str], fields: JsonFields
    ) -> ParsedMessage | None:
        text, non_text = _extract_text_and_metadata(fields.value)
        if not text.strip():
            return None
        sender = fields.get_text("sender", required=True)
        return ParsedMessage(
            user_id=self.user,
            ts=fields.get_time("created_at", required=True),
            role=_ROLES_BY_SENDER.get(sender, sender),
            content=text,
            message_id=fields.get_text("uuid"),
            keeps_id=False,
            conversation_id=conversation_id,
            metadata={**metadata, **non_text},
        )


def _extract_text_and_metadata(message: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Return the text of a message, and metadata that lists the types of its other parts."""
    parts = message.get("content")
    if not isinstance(parts, list) or not parts:
        return read_content(message.get("text"))[0], {}
    texts = [part for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    kinds = [str(part.get("type")) for part in parts if isinstance(part, dict) and part.get("type") != "text"]
    kinds += ["attachment"] * bool(message.get("attachments")) + ["file"] * bool(message.get("files"))
    return read_content(texts)[0], {NON_TEXT: ", ".join(dict.fromkeys(kinds))} if kinds else {}
