"""An importer for one day of a channel in a Slack export: an array of messages."""

from collections.abc import Iterator
from datetime import datetime

from nomemory.importing.fields import JsonFields, parse_time
from nomemory.importing.message_builder import ParsedMessage
from nomemory.importing.record import ImportDefaults, ParseResult, Record, SkippedRecord


class Slack:
    """Reads `{type, user, text, ts}`. All messages have the role `user`; `name` is the sender."""

    name = "slack"
    title = "Slack export"

    def __init__(self, defaults: ImportDefaults) -> None:
        self._user = defaults.user

    def parse(self, record: Record) -> Iterator[ParseResult]:
        """Yield the message of a record. Join and leave events are skipped."""
        if not isinstance(record.value, dict) or record.value.get("type") != "message" or "subtype" in record.value:
            yield SkippedRecord(record.location)
            return
        fields = JsonFields(record.value)
        ts = fields.get_text("ts", required=True)
        time = _parse_ts(ts)
        if time is None:
            fields.reasons.append("ts: must be a Slack timestamp such as 1714552200.000100")
        if not self._user:
            fields.reasons.append("user_id: set it with --user")
        draft = ParsedMessage(
            user_id=self._user,
            message_id=f"slack-{ts}",
            ts=time,
            role="user",
            name=fields.get_text("user", required=True),
            content=fields.get_text("text", required=True),
        )
        yield draft.build(record.location, record.original, fields.reasons)


def _parse_ts(ts: str) -> datetime | None:
    try:
        return parse_time(float(ts))
    except ValueError:
        return None
