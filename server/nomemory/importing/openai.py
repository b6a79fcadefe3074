"""Messages as OpenAI's chat API takes and gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from nomemory.importing.draft import NO_USER, Draft, Parsed, Record, Refused, derived_id, metadata_text
from nomemory.importing.fields import Fields, read_content

_TIMES: Final = ("created_at", "created")
_CALLS: Final = ("tool_calls", "function_call")
_NO_TIME: Final = "created_at: is missing; give the time of the first message with --start"


@dataclass(frozen=True, slots=True)
class Clock:
    """The times of messages that carry none: the n-th of them was said at `start + n * step`."""

    start: datetime | None
    step: timedelta


class OpenAI:
    """Reads `{role, content, name?, created_at?}`: an array of them, or objects that hold them as `messages`.

    Args:
        user: the user of every message.
        clock: dates the messages that carry no time.
    """

    name = "openai"
    title = "OpenAI chat messages"

    def __init__(self, user: str, clock: Clock) -> None:
        self._user = user
        self._clock = clock
        self._undated = 0
        self._loose: _Conversation | None = None

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a message by its role and content, a conversation by its messages."""
        return isinstance(value, dict) and (
            isinstance(value.get("messages"), list) or {"role", "content"} <= set(value)
        )

    def parse(self, record: Record) -> Iterator[Parsed]:
        """Return the messages of a conversation, or the one message that stands by itself."""
        if not self._user:
            yield Refused(record.place, record.original, (NO_USER,))
        elif isinstance(record.value, dict) and isinstance(record.value.get("messages"), list):
            conversation = _Conversation(record.value.get("conversation_id") or record.value.get("id"))
            for number, message in enumerate(record.value["messages"], 1):
                place = replace(record.place, within=f"message {number}")
                yield self._message(Record(place, message, message), conversation)
        else:
            self._loose = self._loose or _Conversation(None)
            yield self._message(record, self._loose)

    def _message(self, record: Record, conversation: _Conversation) -> Parsed:
        if not isinstance(record.value, dict):
            return Refused(record.place, record.original, ("is not a JSON object",))
        fields = Fields(record.value)
        content = read_content(record.value.get("content"))
        ts = self._moment(fields)
        if not content.text.strip():
            fields.reasons.append(_why_empty(record.value))
        draft = Draft(
            user_id=self._user,
            ts=ts,
            role=fields.text("role"),
            content=content.text,
            message_id=fields.text("id"),
            keeps_id=False,
            position=conversation.next_position(),
            name=fields.text("name"),
            conversation_id=conversation.id(self._user, ts, content.text),
            metadata={**content.metadata, **_calls(record.value)},
            reasons=tuple(fields.reasons),
        )
        return draft.finish(record.place, record.original)

    def _moment(self, fields: Fields) -> datetime | None:
        ts = fields.moment(*_TIMES)
        if ts is not None or fields.reasons:
            return ts
        if self._clock.start is None:
            fields.reasons.append(_NO_TIME)
            return None
        self._undated += 1
        return self._clock.start + (self._undated - 1) * self._clock.step


class _Conversation:
    """A conversation while it is read. One that has no id gets one that is derived from how it begins."""

    def __init__(self, given: object) -> None:
        self._id = given if isinstance(given, str) else ""
        self._position = 0

    def id(self, user: str, ts: datetime | None, content: str) -> str:
        self._id = self._id or derived_id("c", user, ts and ts.timestamp(), content)
        return self._id

    def next_position(self) -> str:
        self._position += 1
        return str(self._position)


def _why_empty(message: dict[str, object]) -> str:
    calls = next((key for key in _CALLS if message.get(key)), None)
    return f"content: is empty, the message only has {calls}" if calls else "content: is required"


def _calls(message: dict[str, object]) -> dict[str, str]:
    """Keep which call a tool message answers."""
    answered = message.get("tool_call_id")
    return {"tool_call_id": metadata_text(answered)} if answered else {}
