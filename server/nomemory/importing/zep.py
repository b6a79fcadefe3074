"""Zep's threads (sessions, in its older versions), as its API gives their messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from nomemory.importing.message_builder import MessageDraft
from nomemory.importing.fields import Fields, Importer, parse_messages
from nomemory.importing.record import ParseResult, Record, Rejected

_OF_ZEP: Final = frozenset({"role_type", "processed"})
"""Fields that its messages have and those of OpenAI's chats do not."""


class Zep(Importer):
    """Reads `{messages: [{uuid, role, name, content, created_at, metadata}, …], user_id, thread_id}`.

    In its second version `role_type` is the role, and `role` the speaker's name.
    """

    name = "zep"
    title = "Zep thread"
    names_users = True

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a thread by the fields of its first message."""
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list) or not value["messages"]:
            return False
        first = value["messages"][0]
        return isinstance(first, dict) and "uuid" in first and bool(_OF_ZEP & first.keys())

    def messages(self, record: Record) -> Iterator[ParseResult]:
        """Return the messages of a thread, in its order."""
        if not isinstance(record.value, dict) or not isinstance(record.value.get("messages"), list):
            yield Rejected(record.location, record.original, ("messages: is required",))
            return
        thread = Fields(record.value)
        user = self.user or thread.text("user_id")
        thread_id = thread.text("thread_id") or thread.text("session_id")
        within = f"{thread_id or 'thread'}, message"
        yield from parse_messages(record, record.value["messages"], within, partial(_draft, user, thread_id))


def _draft(user: str, thread_id: str, fields: Fields) -> MessageDraft:
    if not user:
        fields.reasons.append("user_id: is required; give one with --user")
    role_type, role = fields.text("role_type"), fields.text("role")
    return MessageDraft(
        user_id=user,
        ts=fields.moment("reference_time", "created_at", required=True),
        role=role_type or role,
        content=fields.text("content", required=True),
        message_id=fields.text("uuid"),
        keeps_id=False,
        name=fields.text("name") or (role if role_type else ""),
        conversation_id=thread_id,
        metadata=fields.metadata("metadata"),
    )
