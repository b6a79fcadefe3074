"""A reader of JSON object fields, and the base class of the built-in importers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from nomemory.importing.message_builder import METADATA_VALUE_CHARS, ParsedMessage, format_metadata_value
from nomemory.importing.record import ImportDefaults, ParseResult, Record, RejectedRecord, SkippedRecord

_MILLISECONDS_FROM: Final = 1e11  # larger numbers are milliseconds: in seconds, this is the year 5138
NON_TEXT: Final = "non_text_parts"
"""Metadata key for the types of the content parts that were not stored."""


def parse_time(value: object) -> datetime:
    """Parse a time, which is RFC 3339 text or the number of seconds or milliseconds since 1970.

    Raises:
        ValueError: the value is not a time, or is text without a time zone.
    """
    if isinstance(value, str):
        return _parse_text_time(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _parse_numeric_time(value)
    raise ValueError("must be an RFC 3339 time or a number of seconds since 1970")


def _parse_text_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be an RFC 3339 time such as 2024-05-01T08:30:00Z") from None
    if time.tzinfo is None:
        raise ValueError("has no time zone: append Z for UTC, or an offset such as +08:00")
    return time


def _parse_numeric_time(number: float) -> datetime:
    try:
        seconds = number / 1000 if abs(number) >= _MILLISECONDS_FROM else number
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError("must be a time from the year 1 to the year 9999") from None


def read_content(content: object) -> tuple[str, dict[str, str]]:
    """Return the text parts of a message, joined by line breaks, and the types of the other parts as metadata."""
    parts = content if isinstance(content, list) else [content]
    texts = [_extract_text(part) for part in parts]
    non_text = [_get_part_type(part) for part, text in zip(parts, texts, strict=True) if text is None]
    return "\n".join(filter(None, texts)), {NON_TEXT: ", ".join(non_text)} if non_text else {}


def _extract_text(part: object) -> str | None:
    """Return the text of a content part; None if the part is not text."""
    if part is None:
        return ""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    for key in ("text", "refusal"):
        value = part.get(key)
        if isinstance(value, dict):
            value = value.get("value")
        if isinstance(value, str):
            return value
    return None


def _get_part_type(part: object) -> str:
    if isinstance(part, dict):
        return str(part.get("type") or part.get("content_type") or "object")
    return type(part).__name__


def build_title_metadata(title: str) -> dict[str, str]:
    """Return message metadata with the title of the conversation."""
    return {"conversation_title": title[:METADATA_VALUE_CHARS]} if title else {}


class JsonFields:
    """Reads fields of a JSON object and checks their types.

    If a field has the wrong type, an empty value is returned, and an error is added to `reasons`.

    Attributes:
        value: the JSON object.
        reasons: the errors so far, as texts of the form `field: problem`.
    """

    def __init__(self, value: Mapping[str, object]) -> None:
        self.value = value
        self._read: set[str] = set()
        self.reasons: list[str] = []

    def get_text(self, key: str, *, required: bool = False) -> str:
        """Return the value of a string field; empty if the field is missing or null."""
        value = self._get_field(key)
        if isinstance(value, str) and (value or not required):
            return value
        if value is not None and not isinstance(value, str):
            self.reasons.append(f"{key}: must be a string")
        elif required:
            self.reasons.append(f"{key}: is required")
        return ""

    def get_strings(self, key: str) -> list[str]:
        """Return the value of a field that is a list of strings; empty if the field is missing or null."""
        value = self._get_field(key)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        self.reasons.append(f"{key}: must be a list of strings")
        return []

    def get_time(self, *keys: str, required: bool = False) -> datetime | None:
        """Return the time in the first field that is set; None if no field is set or the value is invalid."""
        for key in keys:
            value = self._get_field(key)
            if value is None:
                continue
            try:
                return parse_time(value)
            except ValueError as error:
                self.reasons.append(f"{key}: {error}")
                return None
        if required:
            self.reasons.append(f"{keys[0]}: is required")
        return None

    def get_metadata(self, key: str) -> dict[str, str]:
        """Return the value of an object field as metadata. Values in the object become text, and nulls are dropped."""
        value = self._get_field(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.reasons.append(f"{key}: must be an object")
            return {}
        try:
            return {name: format_metadata_value(item) for name, item in value.items() if item is not None}
        except RecursionError:
            self.reasons.append(f"{key}: is nested too deeply")
            return {}

    def list_unread_fields(self) -> tuple[str, ...]:
        """Return the names of the fields that have not been read."""
        return tuple(sorted(self.value.keys() - self._read))

    def _get_field(self, key: str) -> object:
        self._read.add(key)
        return self.value.get(key)


class Importer(ABC):
    """Base class of the built-in import formats, which are detected by the content of a file."""

    name: str
    title: str
    names_users: bool = False
    """Whether files of this format contain user ids. For other formats a user must be given."""
    required: str = ""
    """The reason for rejecting a record that does not match; empty to parse every record."""

    def __init__(self, defaults: ImportDefaults) -> None:
        self.defaults = defaults
        self.user = defaults.user

    @staticmethod
    @abstractmethod
    def matches(value: object) -> bool:
        """Return whether a record of a file has this format."""

    @abstractmethod
    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield a result for each message of a record that has this format, in order."""

    def parse(self, record: Record) -> Iterator[ParseResult]:
        """Yield a result for each message of a record, in order."""
        if not (self.user or self.names_users):
            yield RejectedRecord(
                record.location, record.original, ("user_id: this format has no user ids; set one with --user",)
            )
        elif self.required and not self.matches(record.value):
            yield RejectedRecord(record.location, record.original, (self.required,))
        else:
            yield from self.iterate_messages(record)


def parse_messages(
    record: Record, values: Iterable[object], element: str, draft: Callable[[JsonFields], ParsedMessage | None]
) -> Iterator[ParseResult]:
    """Parse the messages of a record. Errors name a message by `element` and its number, as in `message 3`."""
    return (
        parse_message(record.create_child(f"{element} {number}", value), draft)
        for number, value in enumerate(values, 1)
    )


def parse_message(record: Record, draft: Callable[[JsonFields], ParsedMessage | None]) -> ParseResult:
    """Parse one message.

    Args:
        record: the element of the file that contains only this message.
        draft: a function that returns the draft of the message, or None to skip it.
    """
    if not isinstance(record.value, dict):
        return RejectedRecord(record.location, record.original, ("is not a JSON object",))
    fields = JsonFields(record.value)
    message_draft = draft(fields)
    return (
        SkippedRecord(record.location)
        if message_draft is None
        else message_draft.build(record.location, record.original, fields.reasons)
    )
