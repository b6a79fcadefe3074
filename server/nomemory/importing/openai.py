"""Import messages in the format of the OpenAI Chat Completions API."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from nomemory.importing.fields import Importer, JsonFields, parse_message, parse_messages, read_content
from nomemory.importing.message_builder import ParsedMessage, derive_message_id, format_metadata_value
from nomemory.importing.record import ImportDefaults, ParseResult, Record

_TIMES: Final = ("created_at", "created")
_CALLS: Final = ("tool_calls", "function_call")
_NO_TIME: Final = "created_at: is missing; set the time of the first message with --start"


class OpenAIImporter(Importer):
    """Importer of messages `{role, content, name?, created_at?}`: an array, or objects with a list `messages`.

    Messages without a time get the times `start`, `start + step`, `start + 2 * step`, and so on.
    """

    name = "openai"
    title = "OpenAI chat messages"

    def __init__(self, defaults: ImportDefaults) -> None:
        super().__init__(defaults)
        self._undated = 0
        self._without_conversation = _ConversationState(None)

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value is a message, with role and content, or a conversation, with messages."""
        return isinstance(value, dict) and (
            isinstance(value.get("messages"), list) or {"role", "content"} <= set(value)
        )

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the messages of a record, which is a conversation or one message."""
        if not isinstance(record.value, dict) or not isinstance(record.value.get("messages"), list):
            return iter([parse_message(record, partial(self._build_message, self._without_conversation))])
        conversation = _ConversationState(record.value.get("conversation_id") or record.value.get("id"))
        return parse_messages(record, record.value["messages"], "message", partial(self._build_message, conversation))

    def _build_message(self, conversation: _ConversationState, fields: JsonFields) -> ParsedMessage:
        text, non_text = read_content(fields.value.get("content"))
        ts = self._assign_time(fields)
        if not text.strip():
            fields.reasons.append(_describe_empty_content(fields.value))
        return ParsedMessage(
            user_id=self.user,
            ts=ts,
            role=fields.get_text("role"),
            content=text,
            message_id=fields.get_text("id"),
            keeps_id=False,
            position=str(next(conversation.positions)),
            name=fields.get_text("name"),
            conversation_id=conversation.derive_id(self.user, ts, text),
            metadata={**non_text, **_build_call_metadata(fields.value)},
        )

    def _assign_time(self, fields: JsonFields) -> datetime | None:
        ts = fields.get_time(*_TIMES)
        if ts is not None or fields.reasons:
            return ts
        if self.defaults.start is None:
            fields.reasons.append(_NO_TIME)
            return None
        self._undated += 1
        return self.defaults.start + (self._undated - 1) * self.defaults.step


class _ConversationState:
    """A conversation that is being parsed. If the file has no conversation id, it is derived from the first message."""

    def __init__(self, conversation_id: object) -> None:
        self._id = conversation_id if isinstance(conversation_id, str) else ""
        self.positions = itertools.count(1)

    def derive_id(self, user: str, ts: datetime | None, content: str) -> str:
        self._id = self._id or derive_message_id("c", user, ts and ts.timestamp(), content)
        return self._id


def _describe_empty_content(message: Mapping[str, object]) -> str:
    calls = next((key for key in _CALLS if message.get(key)), None)
    return f"content: is empty; the message only has {calls}" if calls else "content: is required"


def _build_call_metadata(message: Mapping[str, object]) -> dict[str, str]:
    """Return metadata with the id of the tool call that a message answers."""
    call_id = message.get("tool_call_id")
    return {"tool_call_id": format_metadata_value(call_id)} if call_id else {}
