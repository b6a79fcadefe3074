"""WhatsApp's exported chats: a text file with a line for each message, in the form of the phone's language."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath
from typing import Final

from nomemory.importing.message_builder import MessageDraft
from nomemory.importing.fields import Importer
from nomemory.importing.files import Source
from nomemory.importing.record import ParseResult, SourceLocation, Record, Rejected, Skipped

_MARKS: Final = str.maketrans({"\u200e": "", "\u200f": "", "\u202a": "", "\u202c": "", "\u202f": " ", "\u00a0": " "})
"""What phones put between the characters: marks of direction, and spaces of other widths."""
_FROM_THE_APP: Final = "\u200e"
"""What stands before a text that nobody wrote: a picture left out, a call missed."""
_EDITED: Final = re.compile(r"\s?\u200e<[^<>]*>$")
"""What the app adds to a text that was changed later."""
_DELETED: Final = re.compile(
    "this message was deleted|you deleted this message|diese nachricht wurde gelöscht|du hast diese nachricht gelöscht"
    "|se eliminó este mensaje|eliminaste este mensaje|ce message a été supprimé|vous avez supprimé ce message"
    "|mensagem apagada|você apagou esta mensagem|questo messaggio è stato eliminato|hai eliminato questo messaggio"
    "|此消息已删除|您已删除此消息|此訊息已刪除|您已刪除此訊息",
    re.IGNORECASE,
)
"""Android marks with nothing but words what somebody took back; the other languages of the app are not known here."""
_HEADER: Final = re.compile(
    r"\[?(?P<a>\d{1,4})[/.\-](?P<b>\d{1,2})[/.\-](?P<c>\d{1,4}),?\s{1,3}"
    r"(?P<early>上午|下午)?\s?(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?\s?(?P<late>[AaPp]\.?\s?[Mm]\.?)?"
    r"(?:\]|\s[-–])\s"
)
_HEADER_CHARS: Final = 64
"""No time is longer. Beyond it a line is not looked at for one, whatever somebody has written."""
_TEXT_MAX: Final = 1 << 20
"""The most of a message that is held, in characters: more than a server takes."""
_CENTURY: Final = 2000
_YEAR_DIGITS: Final = 4
_NOON: Final = 12
_CONVERSATION_CHARS: Final = 128
_NO_ZONE: Final = "ts: the file says no time zone; give one with --time-zone"


@dataclass(frozen=True, slots=True)
class _Message:
    """A message as it stands in the file: the parts of its date in their order there, its time, and what follows.

    `chat` is the file's name. `order`: where year, month and day stand; None: the file does not make it clear.
    """

    date: tuple[int, int, int]
    time: tuple[int, int, int]
    rest: str
    four_digits_first: bool
    chat: str = ""
    order: tuple[int, int, int] | None = None


def is_chat(head: bytes) -> bool:
    """Return whether a file begins as an exported chat does."""
    return _message(head.partition(b"\n")[0].decode(errors="replace")) is not None


def lines(source: Source) -> Iterator[Record | Rejected]:
    """Read a file's messages; a message has all lines up to the next that begins with a time."""
    order = _order(message for _, message, _ in _split(source.head.split(b"\n")))
    name = PurePath(source.name).stem[:_CONVERSATION_CHARS]
    for number, message, text in _split(source.lines()):
        place = SourceLocation("line", number)
        if _is_unicode(text):
            yield Record(place, replace(message, chat=name, order=order), text)
        else:
            shown = text.encode(errors="surrogateescape").decode(errors="replace")
            yield Rejected(place, shown, ("is not UTF-8",))


class WhatsApp(Importer):
    """Reads a chat between people: all have the role `user`, and `name` tells them apart.

    The file's times have no zone: it has to be given where the phone was.
    """

    name = "whatsapp"
    title = "WhatsApp chat"
    required = "is no line of an exported chat"

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a message of a chat, which only `lines` makes."""
        return isinstance(value, _Message)

    def messages(self, record: Record) -> Iterator[ParseResult]:
        """Return the message of a record."""
        sender, colon, text = record.value.rest.partition(": ")
        if not colon or _was_not_written(text):
            yield Skipped(record.location)
            return
        ts, reasons = self._moment(record.value)
        draft = MessageDraft(
            user_id=self.user,
            ts=ts,
            role="user",
            content=_EDITED.sub("", text.strip()),
            name=sender.strip().translate(_MARKS),
            conversation_id=record.value.chat,
            position=str(record.location.number),
        )
        yield draft.build(record.location, record.original, reasons)

    def _moment(self, message: _Message) -> tuple[datetime | None, tuple[str, ...]]:
        if self.given.zone is None:
            return None, (_NO_ZONE,)
        if message.order is None:
            return None, ("ts: nothing in the file says whether the day or the month stands first",)
        try:
            return _date(message, message.order).replace(tzinfo=self.given.zone), ()
        except ValueError:
            return None, ("ts: is no date in the order of the others",)


def _split(lines: Iterable[bytes]) -> Iterator[tuple[int, _Message, str]]:
    """Put together the lines of each message, with the number of the first. What stands before is left out."""
    first, gathered = 0, ""
    for number, raw in enumerate(lines, 1):
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="surrogateescape").rstrip("\r\n")
        if _message(text) is None:
            gathered = f"{gathered}\n{text}" if len(gathered) < _TEXT_MAX else gathered
            continue
        yield from _whole(first, gathered)
        first, gathered = number, text
    yield from _whole(first, gathered)


def _whole(first: int, text: str) -> Iterator[tuple[int, _Message, str]]:
    if first and (message := _message(text)):
        yield first, message, text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _message(text: str) -> _Message | None:
    bare = text.lstrip("\u200e\u200f\ufeff")
    found = _HEADER.match(bare[:_HEADER_CHARS].replace("\u202f", " ").replace("\u00a0", " "))
    if found is None:
        return None
    hour = _hour(int(found["hour"]), found["early"] or found["late"] or "")
    return _Message(
        (int(found["a"]), int(found["b"]), int(found["c"])),
        (hour, int(found["minute"]), int(found["second"] or 0)),
        bare[found.end() :],
        len(found["a"]) == _YEAR_DIGITS,
    )


def _hour(hour: int, half: str) -> int:
    if not half:
        return hour
    afternoon = half == "下午" or half[0] in "Pp"
    return hour % _NOON + _NOON * afternoon


def _order(lines: Iterable[_Message]) -> tuple[int, int, int] | None:
    """Find out where year, month and day stand: the one order in which all are dates and none goes back in time."""
    looked_at = list(lines)
    if looked_at and looked_at[0].four_digits_first:
        return (0, 1, 2)
    fitting = [order for order in ((2, 1, 0), (2, 0, 1)) if _fits(looked_at, order)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(lines: list[_Message], order: tuple[int, int, int]) -> bool:
    try:
        dates = [_date(line, order) for line in lines]
    except ValueError:
        return False
    return all(earlier <= later for earlier, later in itertools.pairwise(dates))


def _date(message: _Message, order: tuple[int, int, int]) -> datetime:
    year, month, day = (message.date[place] for place in order)
    hour, minute, second = message.time
    return datetime(year + _CENTURY * (year < 100), month, day, hour, minute, second)  # noqa: DTZ001, PLR2004 - the zone comes after; two digits


def _was_not_written(text: str) -> bool:
    """Return whether the app wrote a text: it is marked, stands between angle brackets, or says that one is gone."""
    bare = text.strip()
    is_marked = bare.startswith(_FROM_THE_APP) or (bare.startswith("<") and bare.endswith(">"))
    return is_marked or _DELETED.fullmatch(bare.rstrip(".。")) is not None
