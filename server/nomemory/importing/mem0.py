"""Memories of mem0, as its API gives them. They are a model's sentences about a user, not what the user said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from nomemory.importing.draft import Draft, Parsed, Place, Record, Refused
from nomemory.importing.fields import Fields

NAME: Final = "mem0"
"""Who speaks in a message that was imported, and whose word it is."""


class Mem0:
    """Reads memories `{id, memory, user_id, created_at, metadata}`, one by one, in an array, or as `results`.

    They get the role `tool`: a recall then says that these are somebody else's words.

    Args:
        user: the user of every memory; empty: its `user_id`.
    """

    name = NAME
    title = "mem0 memories"

    def __init__(self, user: str) -> None:
        self._user = user

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a memory by its text, or a reply by its first memory."""
        memories = value.get("results") if isinstance(value, dict) else None
        first = memories[0] if isinstance(memories, list) and memories else value
        return isinstance(first, dict) and isinstance(first.get("memory"), str) and "id" in first

    def parse(self, record: Record) -> Iterator[Parsed]:
        """Return the memories of a record."""
        memories = record.value.get("results") if isinstance(record.value, dict) else None
        if not isinstance(memories, list):
            yield self._memory(record.place, record.value)
            return
        for number, memory in enumerate(memories, 1):
            yield self._memory(replace(record.place, within=f"memory {number}"), memory)

    def _memory(self, place: Place, memory: object) -> Parsed:
        if not isinstance(memory, dict):
            return Refused(place, memory, ("is not a JSON object",))
        fields = Fields(memory)
        user = self._user or fields.text("user_id", required=True)
        return Draft(
            user_id=user,
            ts=fields.moment("created_at", required=True),
            role="tool",
            content=fields.text("memory", required=True),
            message_id=fields.text("id"),
            name=NAME,
            conversation_id=fields.text("run_id"),
            metadata=fields.metadata("metadata"),
            reasons=tuple(fields.reasons),
        ).finish(place, memory)
