"""Messages and files known to be damaged, and the fault for a caller who reads one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple
from zlib import crc32

from nomemory.server.faults import Fault, Reason
from nomemory.server.message import LoggedMessage
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.checksums import Row, checksum, start_of
from nomemory.server.wire import with_retracted_by

_RETRY_AFTER_S: Final = 1.0


_PRIMARY: Final = 0xFF
"""The bits of SQLite's error code that say what kind it is."""


_MISUSE: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_INTERRUPT})
"""Kinds that are a fault of the statement, not of the file."""


_FILE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Kinds that say that the file is damaged. What else can go wrong may pass."""


class DamagedMessage(NamedTuple):
    """A version of a message whose checksum does not hold."""

    user_id: str
    sequence: int


class LogDamage:
    """What reads and the background check have found. Its members may be used from any thread.

    Attributes:
        suspected: set when a read meets damage, for the background check to look at all.
    """

    def __init__(self) -> None:
        self.suspected = threading.Event()
        self._messages: frozenset[DamagedMessage] = frozenset()
        self._file = ""
        self._checked_at: float | None = None

    @property
    def checked_at(self) -> float | None:
        """When the whole log was last checked, in seconds since the epoch."""
        return self._checked_at

    @property
    def file(self) -> str:
        """What is wrong with the file itself, in SQLite's words; empty if nothing is known."""
        return self._file

    def messages(self, user_id: str | None = None, prefix: str = "") -> list[DamagedMessage]:
        """Return the damaged messages of one user, or of all users whose ids begin with a prefix, by sequence."""
        own = [m for m in self._messages if (m.user_id == user_id if user_id else m.user_id.startswith(prefix))]
        return sorted(own, key=lambda message: message.sequence)

    def note_all(self, messages: Iterable[DamagedMessage], file: str, checked_at: float) -> None:
        """Replace what was known by what a whole check has found."""
        self._messages, self._file, self._checked_at = frozenset(messages), file, checked_at

    def suspect(self, cause: str) -> None:
        """Remember that the file cannot be read somewhere, and have it checked."""
        self._file = self._file or cause
        self.suspected.set()

    def report(self, user_id: str, sequence: int) -> Fault:
        """Remember a damaged message that somebody asks for; return what to tell them."""
        self._messages |= {DamagedMessage(user_id, sequence)}
        return _fault("a message of this answer is damaged in the message log", "CHECKSUM", None)

    def verify_encoded(self, user_id: str, rows: Sequence[Row]) -> list[bytes]:
        """Return the bytes of versions of one user. Many are checked at once without a step of the interpreter.

        Args:
            user_id: whose.
            rows: the bytes of each, its sequence, its checksum, and what took it back, if anything did.

        Raises:
            Fault: STORAGE_UNAVAILABLE, one is damaged.
        """
        if not rows:
            return []
        wires, sequences, sums, takers = zip(*rows, strict=True)
        start = start_of(user_id)
        if tuple(map(crc32, wires, [start + sequence for sequence in sequences])) == sums:
            return list(map(with_retracted_by, wires, takers)) if any(takers) else list(wires)
        damaged = [sequence for wire, sequence, crc, _ in rows if checksum(user_id, sequence, wire) != crc]
        raise next(iter([self.report(user_id, sequence) for sequence in damaged]))

    def verify_messages(self, user_id: str, rows: Sequence[Row]) -> list[LoggedMessage]:
        """Return messages of one user, of rows that have user, id and time before what `verify_encoded` takes."""
        wires = self.verify_encoded(user_id, [row[3:] for row in rows])
        return [
            LoggedMessage(user, message, ts_us, sequence, wire, taker or "")
            for wire, (user, message, ts_us, _, sequence, _, taker) in zip(wires, rows, strict=True)
        ]

    def split_damaged(self, rows: Iterable[Row]) -> tuple[list[LoggedMessage], list[ChangeRef]]:
        """Return messages of any users, of such rows, and apart from them what is damaged, which is noted.

        The rows do not say what took a message back.
        """
        sound, damaged = list[LoggedMessage](), list[ChangeRef]()
        for user_id, message_id, ts_us, wire, sequence, crc in rows:
            if checksum(user_id, sequence, wire) == crc:
                sound.append(LoggedMessage(user_id, message_id, ts_us, sequence, wire))
            else:
                self.report(user_id, sequence)
                damaged.append(ChangeRef(sequence, user_id, message_id))
        return sound, damaged

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Turn SQLite's errors about the file into faults.

        Raises:
            Fault: STORAGE_UNAVAILABLE.
        """
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self.fault_for(error) or error from error

    def fault_for(self, error: sqlite3.DatabaseError) -> Fault | None:
        """Return what to tell of an error; None if the file is not to blame. Damage is remembered."""
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & _PRIMARY
        if kind in _MISUSE:
            return None
        cause = getattr(error, "sqlite_errorname", "")
        if kind in _FILE:
            self.suspect(str(error))
            return _fault("the message log is damaged", cause, None)
        return _fault("the message log cannot be read", cause, _RETRY_AFTER_S)


def _fault(message: str, cause: str, retry_after_s: float | None) -> Fault:
    reason = Reason.ERROR_REASON_STORAGE_UNAVAILABLE
    return Fault(reason, message, metadata={"cause": cause}, retry_after_s=retry_after_s)
