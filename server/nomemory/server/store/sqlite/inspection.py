"""Inspect a SQLite message log for damage: message checksums, database pages and message counts."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.store.checksums import compute_checksum
from nomemory.server.store.damage import DamagedMessage, DamageRegistry
from nomemory.server.store.sqlite.schema import open_read_only_log, write_transaction

_log = get_logger("log")

_ROWS_MAX: Final = 256
"""Number of messages to check in one statement, which takes about a millisecond."""
_MIN_INTERVAL_S: Final = 30.0
"""Minimum time between two inspections, even if reads keep detecting damage."""
_NEXT: Final = """
SELECT user_id, ts, message_id, seq, wire, crc FROM messages WHERE (user_id, ts, message_id) > (?, ?, ?)
ORDER BY user_id, ts, message_id LIMIT ?
"""
_FIRST: Final = ("", -(2**63), "")
_SOUND: Final = "ok"


class Inspection(NamedTuple):
    """The damage that an inspection found; `file` is SQLite's description of the damage to the file, or empty."""

    messages: tuple[DamagedMessage, ...]
    file: str


def inspect_log(path: Path, pause: Callable[[], bool] = lambda: True) -> Inspection:
    """Check the checksum of every message in short statements, and then the integrity of the database file.

    `pause` is called after each batch of messages. If `pause` returns False, the remaining messages are not checked.
    """
    with closing(open_read_only_log(path)) as connection:
        damaged = list[DamagedMessage]()
        try:
            _check_messages(connection, damaged, pause)
            verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            verdict = str(error)
    return Inspection(tuple(damaged), "" if verdict == _SOUND else verdict)


def _check_messages(connection: sqlite3.Connection, damaged: list[DamagedMessage], pause: Callable[[], bool]) -> None:
    after: tuple[object, ...] = _FIRST
    while rows := connection.execute(_NEXT, (*after, _ROWS_MAX)).fetchall():
        for user_id, _, _, sequence, wire, crc in rows:
            if compute_checksum(user_id, sequence, wire) != crc:
                damaged.append(DamagedMessage(user_id, sequence))
        after = rows[-1][:3]
        if not pause():
            return


class LogInspector:
    """Inspects the message log in a background thread, periodically and after a read has detected damage.

    Args:
        damage_registry: records the damage, and requests inspections.
        interval_s: seconds between two inspections.
        pause_s: seconds to pause after each batch of messages.
    """

    def __init__(self, path: Path, damage_registry: DamageRegistry, interval_s: float, pause_s: float) -> None:
        self._path = path
        self._damage_registry = damage_registry
        self._interval_s = interval_s
        self._pause_s = pause_s
        self._stopped = threading.Event()

    async def run(self) -> None:
        """Inspect the message log repeatedly until `stop` is called."""
        await asyncio.to_thread(self._inspect_repeatedly)

    def stop(self) -> None:
        """Ask `run` to return. A running inspection skips the remaining messages, but still checks the file."""
        self._stopped.set()
        self._damage_registry.inspection_requested.set()

    def _inspect_repeatedly(self) -> None:
        while not self._stopped.is_set():
            self._damage_registry.inspection_requested.clear()
            inspection = inspect_log(self._path, self._pause_or_stop)
            if self._stopped.is_set():
                return
            self._record_result(inspection)
            minimum_s = min(_MIN_INTERVAL_S, self._interval_s)
            self._stopped.wait(minimum_s)
            self._damage_registry.inspection_requested.wait(self._interval_s - minimum_s)

    def _record_result(self, inspection: Inspection) -> None:
        self._damage_registry.replace_damage(inspection.messages, inspection.file, time.time())
        if inspection.messages or inspection.file:
            sequences = [message.sequence for message in inspection.messages[:10]]
            _log.error(
                "the message log is damaged: run `nomemory doctor` for details",
                messages=len(inspection.messages),
                sequences=sequences,
                file=inspection.file,
            )

    def _pause_or_stop(self) -> bool:
        return not self._stopped.wait(self._pause_s)


_COUNTED = "SELECT user_id, count(*) AS messages, max(seq) AS latest FROM messages GROUP BY user_id"
_MISCOUNTED = f"""
SELECT count(*) FROM (
  SELECT u.user_id FROM users AS u LEFT JOIN ({_COUNTED}) AS c USING (user_id)
    WHERE u.messages <> ifnull(c.messages, 0) OR u.latest_seq < ifnull(c.latest, 0)
  UNION ALL SELECT user_id FROM ({_COUNTED}) WHERE user_id NOT IN (SELECT user_id FROM users)
)
"""  # noqa: S608 - no user input
_RECOUNT = f"""
INSERT INTO users SELECT user_id, latest, messages FROM ({_COUNTED}) WHERE TRUE
ON CONFLICT DO UPDATE SET messages = excluded.messages, latest_seq = max(latest_seq, excluded.latest_seq)
"""  # noqa: S608 - as above
_NONE_LEFT = "UPDATE users SET messages = 0 WHERE messages <> 0 AND user_id NOT IN (SELECT user_id FROM messages)"

_ORPHANED_ENTRY = """
FROM metadata_entries AS e WHERE NOT EXISTS
  (SELECT 1 FROM messages AS m WHERE (m.user_id, m.ts, m.message_id) = (e.user_id, e.ts, e.message_id))
"""
_ORPHANED_VECTOR = """
FROM embeddings AS e WHERE NOT EXISTS
  (SELECT 1 FROM messages AS m WHERE (m.user_id, m.message_id) = (e.user_id, e.message_id))
"""


class CountCheck(NamedTuple):
    """The numbers of users with a wrong message count, and of metadata entries and vectors without a message."""

    miscounted_users: int
    orphaned_entries: int
    orphaned_vectors: int

    @property
    def is_consistent(self) -> bool:
        """Whether all message counts are right and no row is orphaned."""
        return not any(self)


def check_counts(connection: sqlite3.Connection) -> CountCheck:
    """Compare the message counts, metadata entries and vectors with the stored messages."""
    return CountCheck(
        _fetch_number(connection, _MISCOUNTED),
        _fetch_number(connection, f"SELECT count(*) {_ORPHANED_ENTRY}"),
        _fetch_number(connection, f"SELECT count(*) {_ORPHANED_VECTOR}"),
    )


def repair_counts(connection: sqlite3.Connection) -> None:
    """Correct the message counts and delete orphaned rows, in one transaction."""
    with write_transaction(connection):
        for statement in (_RECOUNT, _NONE_LEFT, f"DELETE {_ORPHANED_ENTRY}", f"DELETE {_ORPHANED_VECTOR}"):
            connection.execute(statement)


def _fetch_number(connection: sqlite3.Connection, statement: str) -> int:
    return int(connection.execute(statement).fetchone()[0])
