"""Zep's threads (sessions, in its older versions), as its API gives their messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from nomemory.importing.draft import Draft, Parsed, Place, Record, Refused
from nomemory.importing.fields import Fields

_OF_ZEP: Final = frozenset({"role_type", "processed"})
"""Fields that its messages have and those of OpenAI's chats do not."""


class Zep:
    """Reads `{messages: [{uuid, role, name, content, created_at, metadata}, …], user_id, thread_id}`.

    In its second version `role_type` is the role, and `role` the speaker's name.

    Args:
        user: the user of every message; empty: the `user_id` of each thread.
    """

    name = "zep"
    title = "Zep thread"

    def __init__(self, user: str) -> None:
        self._user = user

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a thread by the fields of its first message."""
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list) or not value["messages"]:
            return False
        first = value["messages"][0]
        return isinstance(first, dict) and "uuid" in first and bool(_OF_ZEP & first.keys())

    def parse(self, record: Record) -> Iterator[Parsed]:
        """Return the messages of a thread, in its order."""
        if not isinstance(record.value, dict) or not isinstance(record.value.get("messages"), list):
            yield Refused(record.place, record.original, ("messages: is required",))
            return
        thread = Fields(record.value)
        user = self._user or thread.text("user_id")
        thread_id = thread.text("thread_id") or thread.text("session_id")
        for number, message in enumerate(record.value["messages"], 1):
            place = replace(record.place, within=f"{thread_id or 'thread'}, message {number}")
            yield _message(place, message, user, thread_id)


def _message(place: Place, message: object, user: str, thread_id: str) -> Parsed:
    if not isinstance(message, dict):
        return Refused(place, message, ("is not a JSON object",))
    fields = Fields(message)
    if not user:
        fields.reasons.append("user_id: is required; give one with --user")
    role_type, role = fields.text("role_type"), fields.text("role")
    return Draft(
        user_id=user,
        ts=fields.moment("reference_time", "created_at", required=True),
        role=role_type or role,
        content=fields.text("content", required=True),
        message_id=fields.text("uuid"),
        keeps_id=False,
        name=fields.text("name") or (role if role_type else ""),
        conversation_id=thread_id,
        metadata=fields.metadata("metadata"),
        reasons=tuple(fields.reasons),
    ).finish(place, message)
