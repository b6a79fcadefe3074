"""Records of an imported file, and the parse result of each message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, Protocol

from nomemory.v1 import message_pb2


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A position in a source file, for error messages.

    Attributes:
        unit: whether `number` counts lines or items of the outermost array.
        number: the line or item number, from 1.
        element: the element inside the line or item, such as `thread-1, message 3`; empty for the whole line or item.
    """

    unit: Literal["line", "item"]
    number: int
    element: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a file: a line, or an item of the outermost array.

    Attributes:
        location: the position in the file.
        value: the parsed value.
        original: the value as it appears in the rejects file.
    """

    location: SourceLocation
    value: Any
    original: object

    def child(self, element: str, value: object) -> Record:
        """Return a record for an element of this record."""
        return Record(replace(self.location, element=element), value, value)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message to send.

    Attributes:
        location: the position of the original in the file.
        original: the source value.
        message: the message to store.
        ignored: fields of the original that a message cannot store.
        keeps_id: whether the message id must not change. Other ids may be changed to keep the order of the file; see
            `file_order.py`.
    """

    location: SourceLocation
    original: object
    message: message_pb2.ChatMessage
    ignored: tuple[str, ...] = ()
    keeps_id: bool = True


@dataclass(frozen=True, slots=True)
class Rejected:
    """A value that cannot be imported. Each reason has the form `field: problem`."""

    location: SourceLocation
    original: object
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A value that is not a message, such as an empty node."""

    location: SourceLocation


ParseResult = Accepted | Rejected | Skipped


class Format(Protocol):
    """An import format."""

    name: str
    """The value for `--format`."""

    title: str
    """The display name."""

    def parse(self, record: Record) -> Iterator[ParseResult]:
        """Yield a result for each message of a record, in order."""


@dataclass(frozen=True, slots=True)
class ImportDefaults:
    """Values from the command line for fields that a file may lack.

    Attributes:
        user: the user id of all messages; it overrides the user ids in the file.
        start: the time of the first message that has no time.
        step: the time between messages that have no time.
        zone: the time zone of times that state none.
        file: the file name without its suffix.
    """

    user: str = ""
    start: datetime | None = None
    step: timedelta = timedelta(seconds=1)
    zone: tzinfo | None = None
    file: str = ""
