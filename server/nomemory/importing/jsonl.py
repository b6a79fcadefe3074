"""NoMemory's own form: one message per JSON object, with the field names of the contract."""

from __future__ import annotations

from collections.abc import Iterator

from nomemory.importing.draft import Accepted, Draft, Parsed, Record, Refused
from nomemory.importing.fields import Fields


class MessageLines:
    """Reads `{user_id, message_id?, ts, role, content, name?, conversation_id?, metadata?, expire_ts?}`.

    Args:
        user: the user of every message, whatever the file says; empty: the file says it.
    """

    name = "jsonl"
    title = "JSON Lines"

    def __init__(self, user: str) -> None:
        self._user = user

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a message by the fields that only this form has."""
        return isinstance(value, dict) and "content" in value and bool(value.keys() & {"user_id", "ts"})

    def parse(self, record: Record) -> Iterator[Parsed]:
        """Return the one message."""
        if isinstance(record.value, dict):
            yield self._message(record, Fields(record.value))
        else:
            yield Refused(record.place, record.original, ("is not a JSON object",))

    def _message(self, record: Record, fields: Fields) -> Accepted | Refused:
        user_id = fields.text("user_id", required=not self._user)
        ts = fields.moment("ts", required=True)
        draft = Draft(
            user_id=self._user or user_id,
            ts=ts,
            role=fields.text("role"),
            content=fields.text("content", required=True),
            message_id=fields.text("message_id"),
            name=fields.text("name"),
            conversation_id=fields.text("conversation_id"),
            metadata=fields.metadata("metadata"),
            expire_ts=fields.moment("expire_ts"),
            reasons=tuple(fields.reasons),
            ignored=fields.ignored(),
        )
        return draft.finish(record.place, record.original)
