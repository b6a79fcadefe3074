"""Import Zep threads, which older versions call sessions, in the format of the Zep API."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from nomemory.importing.fields import Importer, JsonFields, parse_messages
from nomemory.importing.message_builder import ParsedMessage
from nomemory.importing.record import ParseResult, Record, RejectedRecord

_ZEP_FIELDS: Final = frozenset({"role_type", "processed"})
"""Fields of Zep messages that OpenAI chat messages do not have."""


class ZepImporter(Importer):
    """Importer of `{messages: [{uuid, role, name, content, created_at, metadata}, …], user_id, thread_id}`.

    In version 2 of Zep, `role_type` is the role, and `role` is the speaker's name.
    """

    name = "zep"
    title = "Zep thread"
    names_users = True

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether the first message of a value has the fields of a Zep message."""
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list) or not value["messages"]:
            return False
        first = value["messages"][0]
        return isinstance(first, dict) and "uuid" in first and bool(_ZEP_FIELDS & first.keys())

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the messages of a thread, in order."""
        if not isinstance(record.value, dict) or not isinstance(record.value.get("messages"), list):
            yield RejectedRecord(record.location, record.original, ("messages: is required",))
            return
        thread = JsonFields(record.value)
        user = self.user or thread.get_text("user_id")
        thread_id = thread.get_text("thread_id") or thread.get_text("session_id")
        element = f"{thread_id or 'thread'}, message"
        yield from parse_messages(record, record.value["messages"], element, partial(_build_message, user, thread_id))


def _build_message(user: str, thread_id: str, fields: JsonFields) -> ParsedMessage:
    if not user:
        fields.reasons.append("user_id: is required; set one with --user")
    role_type, role = fields.get_text("role_type"), fields.get_text("role")
    return ParsedMessage(
        user_id=user,
        ts=fields.get_time("reference_time", "created_at", required=True),
        role=role_type or role,
        content=fields.get_text("content", required=True),
        message_id=fields.get_text("uuid"),
        keeps_id=False,
        name=fields.get_text("name") or (role if role_type else ""),
        conversation_id=thread_id,
        metadata=fields.get_metadata("metadata"),
    )
