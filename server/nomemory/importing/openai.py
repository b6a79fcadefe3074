"""Messages as OpenAI's chat API takes and gives them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from nomemory.importing.message_builder import MessageDraft, derived_id, metadata_text
from nomemory.importing.fields import Fields, Importer, parse_messages, parse_message, read_content
from nomemory.importing.record import ImportDefaults, ParseResult, Record

_TIMES: Final = ("created_at", "created")
_CALLS: Final = ("tool_calls", "function_call")
_NO_TIME: Final = "created_at: is missing; give the time of the first message with --start"


class OpenAI(Importer):
    """Reads `{role, content, name?, created_at?}`: an array of them, or objects that hold them as `messages`.

    Of the messages that carry no time the n-th was said at `start + n * step`.
    """

    name = "openai"
    title = "OpenAI chat messages"

    def __init__(self, given: ImportDefaults) -> None:
        super().__init__(given)
        self._undated = 0
        self._loose = _Conversation(None)

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a message by its role and content, a conversation by its messages."""
        return isinstance(value, dict) and (
            isinstance(value.get("messages"), list) or {"role", "content"} <= set(value)
        )

    def messages(self, record: Record) -> Iterator[ParseResult]:
        """Return the messages of a conversation, or the one message that stands by itself."""
        if not isinstance(record.value, dict) or not isinstance(record.value.get("messages"), list):
            return iter([parse_message(record, partial(self._draft, self._loose))])
        conversation = _Conversation(record.value.get("conversation_id") or record.value.get("id"))
        return parse_messages(record, record.value["messages"], "message", partial(self._draft, conversation))

    def _draft(self, conversation: _Conversation, fields: Fields) -> MessageDraft:
        text, others = read_content(fields.value.get("content"))
        ts = self._moment(fields)
        if not text.strip():
            fields.reasons.append(_why_empty(fields.value))
        return MessageDraft(
            user_id=self.user,
            ts=ts,
            role=fields.text("role"),
            content=text,
            message_id=fields.text("id"),
            keeps_id=False,
            position=str(next(conversation.positions)),
            name=fields.text("name"),
            conversation_id=conversation.id(self.user, ts, text),
            metadata={**others, **_calls(fields.value)},
        )

    def _moment(self, fields: Fields) -> datetime | None:
        ts = fields.moment(*_TIMES)
        if ts is not None or fields.reasons:
            return ts
        if self.given.start is None:
            fields.reasons.append(_NO_TIME)
            return None
        self._undated += 1
        return self.given.start + (self._undated - 1) * self.given.step


class _Conversation:
    """A conversation while it is read. One that has no id gets one that is derived from how it begins."""

    def __init__(self, given: object) -> None:
        self._id = given if isinstance(given, str) else ""
        self.positions = itertools.count(1)

    def id(self, user: str, ts: datetime | None, content: str) -> str:
        self._id = self._id or derived_id("c", user, ts and ts.timestamp(), content)
        return self._id


def _why_empty(message: Mapping[str, object]) -> str:
    calls = next((key for key in _CALLS if message.get(key)), None)
    return f"content: is empty, the message only has {calls}" if calls else "content: is required"


def _calls(message: Mapping[str, object]) -> dict[str, str]:
    """Keep which call a tool message answers."""
    answered = message.get("tool_call_id")
    return {"tool_call_id": metadata_text(answered)} if answered else {}
