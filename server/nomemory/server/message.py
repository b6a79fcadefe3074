"""A message, and the version of it that the log holds.

Generated message ids: `m_` and a ULID (https://github.com/ulid/spec) in Crockford's base 32.

What stands for a metadata entry in an index: short, of one length, and equal only for equal entries.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import Final, NamedTuple

ID_MAX_CHARS: Final = 128
"""Longest user, message, conversation and request id, in characters."""

Entry = tuple[str, str]
"""A key and its value."""


_BYTES = 16


def mark_of(entry: Entry) -> str:
    """Return the mark of an entry: 32 hexadecimal digits of a hash. Keys have no NUL, so that NUL ends them."""
    key, value = entry
    return blake2b(f"{key}\0{value}".encode(), digest_size=_BYTES).hexdigest()


def marks_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the marks of entries, in their order."""
    return tuple(map(mark_of, entries))


def stored_mark(entry: Entry) -> bytes:
    """Return the mark of an entry as the log's tables have it."""
    return bytes.fromhex(mark_of(entry))


RETRACTION: Final = b"nomemory.retract"
"""How the mark of what a message takes back begins. With an id after it, it is longer than the mark of any entry."""


def retraction_mark(message_id: str) -> bytes:
    """Return what stands in the log's tables for that a message takes back another, which has this id."""
    return RETRACTION + message_id.encode()


class Role(IntEnum):
    """On whose side of the conversation a message stands; the numbers are those of the contract."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3
    TOOL = 4


_NO_METADATA: Final[Mapping[str, str]] = {}


class Message(NamedTuple):
    """One thing that was said; a tuple, because every write and every index makes one of each message.

    `message_id` is empty where the log is to make one. `ts_us` is microseconds since the Unix epoch, as is `expire_us`,
    the moment from which the message is gone; None: it stays. `embedding` is the caller's own vector as little-endian
    float32 bytes, or None. `retracts` has the ids of what it takes back. `is_undated`: `ts_us` is when it
    arrived, for want of a time of its own.
    """

    user_id: str
    message_id: str
    ts_us: int
    role: Role
    content: str
    name: str = ""
    conversation_id: str = ""
    metadata: Mapping[str, str] = _NO_METADATA
    embedding: bytes | None = None
    expire_us: int | None = None
    retracts: tuple[str, ...] = ()
    is_undated: bool = False


class LoggedMessage(NamedTuple):
    """One version of a message as the log holds it; a tuple, because a page is made of many.

    `sequence` identifies the version: a replaced message has a new one. `wire` is the message as the bytes of a
    `nomemory.v1.ChatMessage`, so that a reply can be spliced together without building messages anew; see
    `nomemory.server.wire` to read it. `retracted_by` is the id of what took it back; it is among the bytes, too.
    """

    user_id: str
    message_id: str
    ts_us: int
    sequence: int
    wire: bytes
    retracted_by: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a read is narrowed to. `since_us` is inclusive, `until_us` exclusive; None, "" and () mean any.

    `metadata` has the entries, key and value, that a message must have; sorted by key, each key once.
    """

    since_us: int | None = None
    until_us: int | None = None
    role: Role | None = None
    conversation_id: str = ""
    metadata: tuple[Entry, ...] = ()

    def admits(self, message: Message) -> bool:
        """Return whether a message passes the filter."""
        since, until = self.since_us, self.until_us
        return (
            (since is None or message.ts_us >= since)
            and (until is None or message.ts_us < until)
            and (self.role is None or message.role is self.role)
            and self.conversation_id in {"", message.conversation_id}
            and all(message.metadata.get(key) == value for key, value in self.metadata)
        )


EVERYTHING = Filter()
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_PAIR_BITS, _DIGITS = 10, 26
_SHIFTS = range(_DIGITS // 2 * _PAIR_BITS - _PAIR_BITS, -1, -_PAIR_BITS)
_RANDOM_BITS = 80
_STEP_BYTES = 5


def fresh_ulid() -> str:
    """Make a ULID of now."""
    milliseconds = time.time_ns() // 1_000_000
    return _crockford(milliseconds << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big"))


class IdNumbers:
    """Gives out the numbers of ids, each larger than all before, even where the clock goes back.

    A number of a new millisecond has random bits, so that two logs do not make the same ids.

    Args:
        last: the last number that was given out before.
        clock: nanoseconds since the epoch.

    Attributes:
        last: the last number that was given out.
    """

    def __init__(self, last: int, clock: Callable[[], int] = time.time_ns) -> None:
        self.last = last
        self._clock = clock

    def take(self, count: int) -> int:
        """Give out so many numbers in a row; return the first of them."""
        now = self._clock() // 1_000_000 << _RANDOM_BITS
        # A step of one would tell callers how many ids others got in between.
        onwards = self.last + 1 + int.from_bytes(os.urandom(_STEP_BYTES), "big")
        first = onwards if now <= self.last else now | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
        self.last = first + count - 1
        return first


def id_of(number: int) -> str:
    """Return the id of a number. Ids sort as their numbers do."""
    return f"m_{_crockford(number)}"


def _crockford(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
