"""Import mem0 memories, which are sentences that a model wrote about a user, in the format of the mem0 API."""

from __future__ import annotations

from collections.abc import Iterator

from nomemory.importing.fields import Importer, JsonFields, parse_message, parse_messages
from nomemory.importing.message_builder import ParsedMessage
from nomemory.importing.record import ParseResult, Record


class Mem0Importer(Importer):
    """Importer of memories `{id, memory, user_id, created_at, metadata}`: objects, an array, or a list `results`.

    The messages get the role `tool` and the name `mem0`, so that a recall does not attribute them to the user.
    """

    name = "mem0"
    title = "mem0 memories"
    names_users = True

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value is a memory, or a response of the mem0 API whose first result is a memory."""
        memories = value.get("results") if isinstance(value, dict) else None
        first = memories[0] if isinstance(memories, list) and memories else value
        return isinstance(first, dict) and isinstance(first.get("memory"), str) and "id" in first

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the memories of a record."""
        memories = record.value.get("results") if isinstance(record.value, dict) else None
        if isinstance(memories, list):
            return parse_messages(record, memories, "memory", self._build_message)
        return iter([parse_message(record, self._build_message)])

    def _build_message(self, fields: JsonFields) -> ParsedMessage:
        return ParsedMessage(
            user_id=self.user or fields.get_text("user_id", required=True),
            ts=fields.get_time("created_at", required=True),
            role="tool",
            content=fields.get_text("memory", required=True),
            message_id=fields.get_text("id"),
            name=self.name,
            conversation_id=fields.get_text("run_id"),
            metadata=fields.get_metadata("metadata"),
        )
