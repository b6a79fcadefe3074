"""Import WhatsApp chat exports, which are text files with a line per message.

The date format depends on the phone's language.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath
from typing import Final

from nomemory.importing.fields import Importer
from nomemory.importing.files import ImportFile
from nomemory.importing.message_builder import ParsedMessage
from nomemory.importing.record import ParseResult, Record, RejectedRecord, SkippedRecord, SourceLocation

_MARKS: Final = str.maketrans({"\u200e": "", "\u200f": "", "\u202a": "", "\u202c": "", "\u202f": " ", "\u00a0": " "})
"""Direction marks to remove, and special spaces to replace."""
_APP_TEXT_MARK: Final = "\u200e"
"""Prefix of texts that the app wrote, such as for omitted media and missed calls."""
_EDITED: Final = re.compile(r"\s?\u200e<[^<>]*>$")
"""Suffix that the app adds to an edited message."""
_DELETED: Final = re.compile(
    "this message was deleted|you deleted this message|diese nachricht wurde gelöscht|du hast diese nachricht gelöscht"
    "|se eliminó este mensaje|eliminaste este mensaje|ce message a été supprimé|vous avez supprimé ce message"
    "|mensagem apagada|você apagou esta mensagem|questo messaggio è stato eliminato|hai eliminato questo messaggio"
    "|此消息已删除|您已删除此消息|此訊息已刪除|您已刪除此訊息",
    re.IGNORECASE,
)
"""Texts that replace deleted messages on Android, without a direction mark. Other languages are not supported."""
_HEADER: Final = re.compile(
    r"\[?(?P<a>\d{1,4})[/.\-](?P<b>\d{1,2})[/.\-](?P<c>\d{1,4}),?\s{1,3}"
    r"(?P<early>上午|下午)?\s?(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?\s?(?P<late>[AaPp]\.?\s?[Mm]\.?)?"
    r"(?:\]|\s[-–])\s"
)
_HEADER_CHARS: Final = 64
"""Maximum length of the date and time at the start of a line."""
_TEXT_MAX: Final = 1 << 20
"""Maximum length of a message in memory, in characters. The limit is higher than the server's limit."""
_CENTURY: Final = 2000
_YEAR_DIGITS: Final = 4
_NOON: Final = 12
_CONVERSATION_CHARS: Final = 128
_NO_ZONE: Final = "ts: the file has no time zone; set one with --time-zone"


@dataclass(frozen=True, slots=True)
class _ChatLine:
    """A line of a chat that begins with a date and time.

    Attributes:
        date: the three numbers of the date, in the order of the file.
        time: hour, minute and second.
        rest: the text of the line after the time.
        four_digits_first: whether the date begins with the year.
        chat: the name of the chat, which is the file name.
        order: the positions of year, month and day in `date`; None if the file allows several orders.
    """

    date: tuple[int, int, int]
    time: tuple[int, int, int]
    rest: str
    four_digits_first: bool
    chat: str = ""
    order: tuple[int, int, int] | None = None


def is_chat_export(head: bytes) -> bool:
    """Return whether the first line of a file has the format of a chat export."""
    return _parse_header(head.partition(b"\n")[0].decode(errors="replace")) is not None


def read_messages(source: ImportFile) -> Iterator[Record | RejectedRecord]:
    """Read the messages of a chat. A message extends to the next line that begins with a date and time."""
    order = _find_date_order(message for _, message, _ in _group_lines(source.head.split(b"\n")))
    name = PurePath(source.name).stem[:_CONVERSATION_CHARS]
    for number, message, text in _group_lines(source.read_lines()):
        location = SourceLocation("line", number)
        if _is_valid_unicode(text):
            yield Record(location, replace(message, chat=name, order=order), text)
        else:
            shown = text.encode(errors="surrogateescape").decode(errors="replace")
            yield RejectedRecord(location, shown, ("is not UTF-8",))


class WhatsAppImporter(Importer):
    """Importer of WhatsApp chats. All messages have the role `user`; `name` is the sender.

    A chat export has no time zone, so the time zone of the phone must be set on the command line.
    """

    name = "whatsapp"
    title = "WhatsApp chat"
    required = "is not a line of a WhatsApp chat export"

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value is a message from `read_messages`."""
        return isinstance(value, _ChatLine)

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the message of a record."""
        sender, colon, text = record.value.rest.partition(": ")
        if not colon or _is_system_text(text):
            yield SkippedRecord(record.location)
            return
        ts, reasons = self._parse_time(record.value)
        draft = ParsedMessage(
            user_id=self.user,
            ts=ts,
            role="user",
            content=_EDITED.sub("", text.strip()),
            name=sender.strip().translate(_MARKS),
            conversation_id=record.value.chat,
            position=str(record.location.number),
        )
        yield draft.build(record.location, record.original, reasons)

    def _parse_time(self, message: _ChatLine) -> tuple[datetime | None, tuple[str, ...]]:
        if self.defaults.zone is None:
            return None, (_NO_ZONE,)
        if message.order is None:
            return None, ("ts: ambiguous date: the order of day and month cannot be determined from the file",)
        try:
            return _to_datetime(message, message.order).replace(tzinfo=self.defaults.zone), ()
        except ValueError:
            return None, ("ts: is not a valid date in the date format of this file",)


def _group_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, _ChatLine, str]]:
    """Group the lines of a chat into messages. Yield each message with the number of its first line."""
    first_line, message_lines, size = 0, list[str](), 0
    for number, raw in enumerate(lines, 1):
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="surrogateescape").rstrip("\r\n")
        if _parse_header(line) is None:
            if size < _TEXT_MAX:
                message_lines.append(line)
                size += len(line) + 1
            continue
        yield from _join_message_lines(first_line, message_lines)
        first_line, message_lines, size = number, [line], len(line)
    yield from _join_message_lines(first_line, message_lines)


def _join_message_lines(first_line: int, message_lines: Sequence[str]) -> Iterator[tuple[int, _ChatLine, str]]:
    text = "\n".join(message_lines)
    if first_line and (message := _parse_header(text)):
        yield first_line, message, text


def _is_valid_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_header(text: str) -> _ChatLine | None:
    bare = text.lstrip("\u200e\u200f\ufeff")
    match = _HEADER.match(bare[:_HEADER_CHARS].replace("\u202f", " ").replace("\u00a0", " "))
    if match is None:
        return None
    hour = _to_24_hours(int(match["hour"]), match["early"] or match["late"] or "")
    return _ChatLine(
        (int(match["a"]), int(match["b"]), int(match["c"])),
        (hour, int(match["minute"]), int(match["second"] or 0)),
        bare[match.end() :],
        len(match["a"]) == _YEAR_DIGITS,
    )


def _to_24_hours(hour: int, half: str) -> int:
    if not half:
        return hour
    afternoon = half == "下午" or half[0] in "Pp"
    return hour % _NOON + _NOON * afternoon


def _find_date_order(lines: Iterable[_ChatLine]) -> tuple[int, int, int] | None:
    """Return the order of year, month and day in which all dates are valid and ascending; None if ambiguous."""
    parsed_lines = list(lines)
    if parsed_lines and parsed_lines[0].four_digits_first:
        return (0, 1, 2)
    candidates = [order for order in ((2, 1, 0), (2, 0, 1)) if _are_dates_ascending(parsed_lines, order)]
    return candidates[0] if len(candidates) == 1 else None


def _are_dates_ascending(lines: list[_ChatLine], order: tuple[int, int, int]) -> bool:
    try:
        dates = [_to_datetime(line, order) for line in lines]
    except ValueError:
        return False
    return all(earlier <= later for earlier, later in itertools.pairwise(dates))


def _to_datetime(message: _ChatLine, order: tuple[int, int, int]) -> datetime:
    year, month, day = (message.date[position] for position in order)
    hour, minute, second = message.time
    return datetime(year + _CENTURY * (year < 100), month, day, hour, minute, second)  # noqa: DTZ001, PLR2004 - the zone is set later; two digits


def _is_system_text(text: str) -> bool:
    """Return whether WhatsApp itself generated a text.

    A generated text begins with U+200E, is in angle brackets, or replaces a deleted message.
    """
    bare = text.strip()
    is_marked = bare.startswith(_APP_TEXT_MARK) or (bare.startswith("<") and bare.endswith(">"))
    return is_marked or _DELETED.fullmatch(bare.rstrip(".。")) is not None
