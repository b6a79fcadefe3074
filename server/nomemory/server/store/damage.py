"""Damage to the message log that was detected by checksums or reported by SQLite."""

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
from nomemory.server.store.checksums import Row, compute_checksum, compute_initial_crc
from nomemory.server.wire import append_retracted_by

_RETRY_AFTER_S: Final = 1.0


_PRIMARY: Final = 0xFF
"""Mask of the primary result code in an extended SQLite result code."""


_STATEMENT_ERRORS: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_INTERRUPT})
"""Result codes of errors that the statement causes, not the file."""


_CORRUPTION_ERRORS: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Result codes of a damaged file. Other errors may be temporary."""


class DamagedMessage(NamedTuple):
    """A message version with a wrong checksum."""

    user_id: str
    sequence: int


class DamageRegistry:
    """Collects the damage that reads and the background inspection detect. All methods can be called in any thread.

    A report that arrives during an inspection may be lost; the next read of the message reports it again.

    Attributes:
        inspection_requested: the event that is set when a read detects damage, to start an inspection.
    """

    def __init__(self) -> None:
        self.inspection_requested = threading.Event()
        self._messages: frozenset[DamagedMessage] = frozenset()
        self._file = ""
        self._checked_at: float | None = None

    @property
    def checked_at(self) -> float | None:
        """The Unix time of the last inspection in seconds; None before the first inspection."""
        return self._checked_at

    @property
    def file_damage(self) -> str:
        """SQLite's description of the damage to the database file; empty if no damage is known."""
        return self._file

    def list_damaged_messages(self, user_id: str | None = None, prefix: str = "") -> list[DamagedMessage]:
        """Return the damaged messages of a user, or of all users whose ids begin with `prefix`, in sequence order."""
        matching = [m for m in self._messages if (m.user_id == user_id if user_id else m.user_id.startswith(prefix))]
        return sorted(matching, key=lambda message: message.sequence)

    def replace_damage(self, messages: Iterable[DamagedMessage], file: str, checked_at: float) -> None:
        """Replace all recorded damage with the result of an inspection."""
        self._messages, self._file, self._checked_at = frozenset(messages), file, checked_at

    def report_file_damage(self, cause: str) -> None:
        """Record that the database file is damaged, and request an inspection."""
        self._file = self._file or cause
        self.inspection_requested.set()

    def report_damaged_message(self, user_id: str, sequence: int) -> Fault:
        """Record a damaged message, request an inspection if it was not known, and return the fault for the read."""
        damaged = DamagedMessage(user_id, sequence)
        if damaged not in self._messages:
            self._messages |= {damaged}
            self.inspection_requested.set()
        return _make_damage_fault("a requested message is damaged in the message log", "CHECKSUM", None)

    def verify_encoded_messages(self, user_id: str, rows: Sequence[Row]) -> list[bytes]:
        """Verify the checksums of encoded messages of one user, and return the messages.

        A row has the encoded message, the sequence number, the checksum, and the id of the retracting message or None.

        Raises:
            Fault: STORAGE_UNAVAILABLE, a message is damaged.
        """
        if not rows:
            return []
        wires, sequences, checksums, retracting_ids = zip(*rows, strict=True)
        start = compute_initial_crc(user_id)
        if tuple(map(crc32, wires, [start + sequence for sequence in sequences])) == checksums:
            return list(map(append_retracted_by, wires, retracting_ids)) if any(retracting_ids) else list(wires)
        damaged = [sequence for wire, sequence, crc, _ in rows if compute_checksum(user_id, sequence, wire) != crc]
        raise next(iter([self.report_damaged_message(user_id, sequence) for sequence in damaged]))

    def verify_messages(self, user_id: str, rows: Sequence[Row]) -> list[LoggedMessage]:
        """Verify messages like `verify_encoded_messages`, from rows that begin with user id, message id and time."""
        wires = self.verify_encoded_messages(user_id, [row[3:] for row in rows])
        return [
            LoggedMessage(user, message, ts_us, sequence, wire, retracted_by or "")
            for wire, (user, message, ts_us, _, sequence, _, retracted_by) in zip(wires, rows, strict=True)
        ]

    def split_damaged_messages(self, rows: Iterable[Row]) -> tuple[list[LoggedMessage], list[ChangeRef]]:
        """Separate intact messages from damaged ones, and record the damage.

        A row has user id, message id, time, encoded message, sequence number and checksum. The rows may belong to
        several users.
        """
        sound, damaged = list[LoggedMessage](), list[ChangeRef]()
        for user_id, message_id, ts_us, wire, sequence, crc in rows:
            if compute_checksum(user_id, sequence, wire) == crc:
                sound.append(LoggedMessage(user_id, message_id, ts_us, sequence, wire))
            else:
                self.report_damaged_message(user_id, sequence)
                damaged.append(ChangeRef(sequence, user_id, message_id))
        return sound, damaged

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate SQLite errors into faults, and record damage.

        Raises:
            Fault: STORAGE_UNAVAILABLE, the database file cannot be read.
        """
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self.to_fault(error) or error from error

    def to_fault(self, error: sqlite3.DatabaseError) -> Fault | None:
        """Record damage and return the fault for a SQLite error; return None if the statement caused the error."""
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & _PRIMARY
        if kind in _STATEMENT_ERRORS:
            return None
        cause = getattr(error, "sqlite_errorname", "")
        if kind in _CORRUPTION_ERRORS:
            self.report_file_damage(str(error))
            return _make_damage_fault("the message log is damaged", cause, None)
        return _make_damage_fault("the message log cannot be read", cause, _RETRY_AFTER_S)


def _make_damage_fault(message: str, cause: str, retry_after_s: float | None) -> Fault:
    reason = Reason.ERROR_REASON_STORAGE_UNAVAILABLE
    return Fault(reason, message, metadata={"cause": cause}, retry_after_s=retry_after_s)
