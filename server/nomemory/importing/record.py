"""The records of an imported file, and the outcome of each message in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, Protocol

from nomemory.v1 import message_pb2


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where something stands in a file.

    `number` counts lines, or items of the outermost array, from 1. `within` leads on inside of it, for people.
    """

    unit: Literal["line", "item"]
    number: int
    within: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a file: a line, or an item of the outermost array. `original` is how it stood there."""

    place: SourceLocation
    value: Any
    original: object

    def part(self, within: str, value: object) -> Record:
        """Return a part of it, where that stands inside of it."""
        return Record(replace(self.place, within=within), value, value)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message to send.

    `ignored` are the fields of the original that have no place in a message. The message `keeps_id` if its id is one
    that people chose or cite; any other id may be changed to keep the order of the file (`file_order.py`).
    """

    place: SourceLocation
    original: object
    message: message_pb2.ChatMessage
    ignored: tuple[str, ...] = ()
    keeps_id: bool = True


@dataclass(frozen=True, slots=True)
class Rejected:
    """Something that cannot be sent, with each reason as "field: what is wrong"."""

    place: SourceLocation
    original: object
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of the file that is not something said, such as an empty node."""

    place: SourceLocation


ParseResult = Accepted | Rejected | Skipped


class Format(Protocol):
    """A form of file that can be imported."""

    name: str
    """What `--format` calls it."""

    title: str
    """What people call it."""

    def parse(self, record: Record) -> Iterator[ParseResult]:
        """Return every message of a record, in order."""


@dataclass(frozen=True, slots=True)
class ImportDefaults:
    """What the command line says that a file may not: whose messages these are, and when and where they were said.

    `file` is the file's name without its ending.
    """

    user: str = ""
    start: datetime | None = None
    step: timedelta = timedelta(seconds=1)
    zone: tzinfo | None = None
    file: str = ""
