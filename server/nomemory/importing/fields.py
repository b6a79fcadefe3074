"""Reads what one JSON object says: its fields, times as the sources write them, and content in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from nomemory.importing.message_builder import METADATA_VALUE_CHARS, MessageDraft, metadata_text
from nomemory.importing.record import ImportDefaults, ParseResult, Record, Rejected, Skipped

_MILLISECONDS_FROM: Final = 1e11  # as seconds that would be the year 5138
NON_TEXT: Final = "non_text_parts"
"""The metadata key that names the kinds of parts that were left out."""


def instant(value: object) -> datetime:
    """Read a moment.

    Raises:
        ValueError: it is not one. A text without a time zone is refused: where it was said decides when it was.
    """
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_number(value)
    raise ValueError("must be a time in RFC 3339 or a number of seconds since 1970")


def _from_text(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is not a time in RFC 3339, like 2024-05-01T08:30:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("has no time zone: append Z for UTC, or an offset like +08:00")
    return moment


def _from_number(number: float) -> datetime:
    try:
        seconds = number / 1000 if abs(number) >= _MILLISECONDS_FROM else number
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError("is out of range") from None


def read_content(content: object) -> tuple[str, dict[str, str]]:
    """Read a text or a list of parts: the texts, joined by line breaks, and the metadata that names the other parts."""
    parts = content if isinstance(content, list) else [content]
    found = [_text(part) for part in parts]
    others = [_kind(part) for part, text in zip(parts, found, strict=True) if text is None]
    return "\n".join(filter(None, found)), {NON_TEXT: ", ".join(others)} if others else {}


def _text(part: object) -> str | None:
    """Return the text of a part; None if it is of another kind."""
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


def _kind(part: object) -> str:
    if isinstance(part, dict):
        return str(part.get("type") or part.get("content_type") or "object")
    return type(part).__name__


def title_metadata(title: str) -> dict[str, str]:
    """Return the metadata that keeps what a conversation is called."""
    return {"conversation_title": title[:METADATA_VALUE_CHARS]} if title else {}


class Fields:
    """A view of one JSON object. A bad field gives an empty value and a reason.

    `value` is the object, and `reasons` has what was wrong so far, as "field: what is wrong".
    """

    def __init__(self, value: Mapping[str, object]) -> None:
        self.value = value
        self._read: set[str] = set()
        self.reasons: list[str] = []

    def text(self, key: str, *, required: bool = False) -> str:
        """Read a text; a missing one and null are empty."""
        value = self._get(key)
        if isinstance(value, str) and (value or not required):
            return value
        if value is not None and not isinstance(value, str):
            self.reasons.append(f"{key}: must be text")
        elif required:
            self.reasons.append(f"{key}: is required")
        return ""

    def texts(self, key: str) -> list[str]:
        """Read a list of texts; a missing one and null are empty."""
        value = self._get(key)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return value
        self.reasons.append(f"{key}: must be a list of texts")
        return []

    def moment(self, *keys: str, required: bool = False) -> datetime | None:
        """Read a time from the first of the keys that is there; None if there is none, or a bad one."""
        for key in keys:
            value = self._get(key)
            if value is None:
                continue
            try:
                return instant(value)
            except ValueError as error:
                self.reasons.append(f"{key}: {error}")
                return None
        if required:
            self.reasons.append(f"{keys[0]}: is required")
        return None

    def metadata(self, key: str) -> dict[str, str]:
        """Read an object; its values become text. Nulls are left out."""
        value = self._get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.reasons.append(f"{key}: must be an object")
            return {}
        try:
            return {name: metadata_text(item) for name, item in value.items() if item is not None}
        except RecursionError:
            self.reasons.append(f"{key}: is nested too deeply")
            return {}

    def ignored(self) -> tuple[str, ...]:
        """Return the fields that nothing was done with."""
        return tuple(sorted(self.value.keys() - self._read))

    def _get(self, key: str) -> object:
        self._read.add(key)
        return self.value.get(key)


class Importer(ABC):
    """A format of ours, which is found out from a file itself."""

    name: str
    title: str
    names_users: bool = False
    """Whether its files say whose messages they are. Others are refused where nobody says it."""
    required: str = ""
    """What is wrong with a record that `matches` does not recognise; empty: it is looked at all the same."""

    def __init__(self, given: ImportDefaults) -> None:
        self.given = given
        self.user = given.user

    @staticmethod
    @abstractmethod
    def matches(value: object) -> bool:
        """Return whether a record of a file looks like this format."""

    @abstractmethod
    def messages(self, record: Record) -> Iterator[ParseResult]:
        """Return every message of a record that can be read, in order."""

    def parse(self, record: Record) -> Iterator[ParseResult]:
        """Return every message of a record, in order."""
        if not (self.user or self.names_users):
            yield Rejected(record.location, record.original, ("user_id: this format names no user; give one with --user",))
        elif self.required and not self.matches(record.value):
            yield Rejected(record.location, record.original, (self.required,))
        else:
            yield from self.messages(record)


def parse_messages(
    record: Record, values: Iterable[object], within: str, draft: Callable[[Fields], MessageDraft | None]
) -> Iterator[ParseResult]:
    """Return what becomes of each message of a record, in order; each is known by `within` and its number."""
    return (parse_message(record.part(f"{within} {number}", value), draft) for number, value in enumerate(values, 1))


def parse_message(record: Record, draft: Callable[[Fields], MessageDraft | None]) -> ParseResult:
    """Return what becomes of one message.

    Args:
        record: the message.
        draft: makes a draft of its fields; None: nobody said it.
    """
    if not isinstance(record.value, dict):
        return Rejected(record.location, record.original, ("is not a JSON object",))
    fields = Fields(record.value)
    made = draft(fields)
    return Skipped(record.location) if made is None else made.build(record.location, record.original, fields.reasons)
