"""Import NoMemory's own format, JSON Lines: one message per JSON object, with the field names of the API."""

from __future__ import annotations

from collections.abc import Iterator

from nomemory.importing.fields import Importer, JsonFields, parse_message
from nomemory.importing.message_builder import ParsedMessage
from nomemory.importing.record import ParseResult, Record


class JsonLinesImporter(Importer):
    """Importer of lines `{user_id, message_id?, ts, role, content, name?, conversation_id?, metadata?, …}`.

    The optional fields `expire_ts` and `retracts` are also read. The field `retracted_by` of an export is ignored,
    because the server derives it from `retracts`.
    """

    name = "jsonl"
    title = "JSON Lines"
    names_users = True

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value has fields that no other format has."""
        return isinstance(value, dict) and "content" in value and bool(value.keys() & {"user_id", "ts"})

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the message of a record."""
        yield parse_message(record, self._build_message)

    def _build_message(self, fields: JsonFields) -> ParsedMessage:
        user_id = fields.get_text("user_id", required=not self.user)
        fields.get_text("retracted_by")
        return ParsedMessage(
            user_id=self.user or user_id,
            ts=fields.get_time("ts", required=True),
            role=fields.get_text("role"),
            content=fields.get_text("content", required=True),
            message_id=fields.get_text("message_id"),
            name=fields.get_text("name"),
            conversation_id=fields.get_text("conversation_id"),
            metadata=fields.get_metadata("metadata"),
            expire_ts=fields.get_time("expire_ts"),
            retracts=fields.get_strings("retracts"),
            ignored=fields.list_unread_fields(),
        )
