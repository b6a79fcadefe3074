"""Records of a file to import, and the results of parsing their messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, Protocol

from nomemory.v1 import message_pb2


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A position in a file to import, for error messages.

    Attributes:
        unit: whether `number` counts lines, or items of the outermost array.
        number: the number of the line or item, starting at 1.
        element: the element inside the line or item, such as `thread-1, message 3`; empty if the whole line or item is
            meant.
    """

    unit: Literal["line", "item"]
    number: int
    element: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON value in a file to import: a line, or an item of the outermost array.

    Attributes:
        original: the value to write to the rejects file if the record is rejected.
    """

    location: SourceLocation
    value: Any
    original: object

    def create_child(self, element: str, value: object) -> Record:
        """Return a record for an element of this record, such as one message of a conversation."""
        return Record(replace(self.location, element=element), value, value)


@dataclass(frozen=True, slots=True)
class AcceptedMessage:
    """A message that was parsed without errors.

    Attributes:
        original: the value in the file, which is written to the rejects file if the server rejects the message.
        ignored: names of fields in the file that a message cannot store.
        keeps_id: whether the message id must be kept, even if messages with the same time are then not in the order of
            the file.
    """

    location: SourceLocation
    original: object
    message: message_pb2.ChatMessage
    ignored: tuple[str, ...] = ()
    keeps_id: bool = True


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A value in a file that cannot be imported. Each reason has the form `field: problem`."""

    location: SourceLocation
    original: object
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A value in a file that is not a message and is not imported, such as an event."""

    location: SourceLocation


ParseResult = AcceptedMessage | RejectedRecord | SkippedRecord


class ImportFormat(Protocol):
    """Interface of import formats, which parse the records of a file."""

    name: str
    """The value for `--format`."""

    title: str
    """The display name."""

    def parse(self, record: Record) -> Iterator[ParseResult]:
        """Yield a result for each message of a record, in order."""


@dataclass(frozen=True, slots=True)
class ImportDefaults:
    """Options of `nomemory import` for values that a file may lack.

    Attributes:
        user: the user id for all messages, which overrides the user ids in the file; if empty, the user ids in the file
            are used.
        start: the time for the first message that has no time.
        step: the time between messages that have no time.
        zone: the time zone for times in the file that state none.
        file: the file name without its suffix.
    """

    user: str = ""
    start: datetime | None = None
    step: timedelta = timedelta(seconds=1)
    zone: tzinfo | None = None
    file: str = ""
