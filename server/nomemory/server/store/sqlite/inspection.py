"""Looks for damage: the checksum of each message, the pages of the file, and the counts beside the messages."""

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
from nomemory.server.store.checksums import checksum
from nomemory.server.store.damage import DamagedMessage, LogDamage
from nomemory.server.store.sqlite.schema import locked, open_for_reading

_log = get_logger("log")

_ROWS_MAX: Final = 256
"""Messages that are looked at in one statement: a millisecond's work."""
_REST_S: Final = 30.0
"""Least time between two inspections: reads that meet damage again and again do not make it a busy loop."""
_NEXT: Final = """
SELECT user_id, ts, message_id, seq, wire, crc FROM messages WHERE (user_id, ts, message_id) > (?, ?, ?)
ORDER BY user_id, ts, message_id LIMIT ?
"""
_FIRST: Final = ("", -(2**63), "")
_SOUND: Final = "ok"


class Inspection(NamedTuple):
    """What a look at the whole log has found. `file` is what is wrong with the file, in SQLite's words, or empty."""

    messages: tuple[DamagedMessage, ...]
    file: str


def inspect(path: Path, rest: Callable[[], bool] = lambda: True) -> Inspection:
    """Look at every message and every page, in short statements.

    Args:
        path: the database file.
        rest: called after each statement; False ends the look early.
    """
    with closing(open_for_reading(path)) as connection:
        found = list[DamagedMessage]()
        try:
            _look_at_messages(connection, found, rest)
            verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            verdict = str(error)
    return Inspection(tuple(found), "" if verdict == _SOUND else verdict)


def _look_at_messages(connection: sqlite3.Connection, found: list[DamagedMessage], rest: Callable[[], bool]) -> None:
    place: tuple[object, ...] = _FIRST
    while rows := connection.execute(_NEXT, (*place, _ROWS_MAX)).fetchall():
        for user_id, _, _, sequence, wire, crc in rows:
            if checksum(user_id, sequence, wire) != crc:
                found.append(DamagedMessage(user_id, sequence))
        place = rows[-1][:3]
        if not rest():
            return


class LogInspector:
    """Inspects the log again and again, slowly, in a thread of its own; at once when a read meets damage.

    Args:
        path: the database file.
        damage: is told what was found.
        interval_s: seconds between two inspections.
        pause_s: seconds of rest after each few hundred messages.
    """

    def __init__(self, path: Path, damage: LogDamage, interval_s: float, pause_s: float) -> None:
        self._path = path
        self._damage = damage
        self._interval_s = interval_s
        self._pause_s = pause_s
        self._stopped = threading.Event()

    async def run(self) -> None:
        """Inspect until `stop` is called."""
        await asyncio.to_thread(self._run)

    def stop(self) -> None:
        """Have `run` end after the statement at hand."""
        self._stopped.set()
        self._damage.suspected.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._damage.suspected.clear()
            found = inspect(self._path, self._rest)
            if self._stopped.is_set():
                return
            self._note(found)
            self._stopped.wait(min(_REST_S, self._interval_s))
            self._damage.suspected.wait(self._interval_s)

    def _note(self, found: Inspection) -> None:
        self._damage.note_all(found.messages, found.file, time.time())
        if found.messages or found.file:
            sequences = [message.sequence for message in found.messages[:10]]
            _log.error("the log is damaged", messages=len(found.messages), sequences=sequences, file=found.file)

    def _rest(self) -> bool:
        return not self._stopped.wait(self._pause_s)


_COUNTED = "SELECT user_id, count(*) AS messages, max(seq) AS latest FROM messages GROUP BY user_id"
_MISCOUNTED = f"""
SELECT count(*) FROM (
  SELECT u.user_id FROM users AS u LEFT JOIN ({_COUNTED}) AS c USING (user_id)
    WHERE u.messages <> ifnull(c.messages, 0) OR u.latest_seq < ifnull(c.latest, 0)
  UNION ALL SELECT user_id FROM ({_COUNTED}) WHERE user_id NOT IN (SELECT user_id FROM users)
)
"""  # noqa: S608 - no value of a caller is in it
_RECOUNT = f"""
INSERT INTO users SELECT user_id, latest, messages FROM ({_COUNTED}) WHERE TRUE
ON CONFLICT DO UPDATE SET messages = excluded.messages, latest_seq = max(latest_seq, excluded.latest_seq)
"""  # noqa: S608 - as above
_NONE_LEFT = "UPDATE users SET messages = 0 WHERE messages <> 0 AND user_id NOT IN (SELECT user_id FROM messages)"

_OWNERLESS_ENTRY = """
FROM metadata_entries AS e WHERE NOT EXISTS
  (SELECT 1 FROM messages AS m WHERE (m.user_id, m.ts, m.message_id) = (e.user_id, e.ts, e.message_id))
"""
_OWNERLESS_VECTOR = """
FROM embeddings AS e WHERE NOT EXISTS
  (SELECT 1 FROM messages AS m WHERE (m.user_id, m.message_id) = (e.user_id, e.message_id))
"""


class CountCheck(NamedTuple):
    """What does not agree with the messages: users with a wrong count, and rows whose messages are gone."""

    miscounted_users: int
    ownerless_entries: int
    ownerless_vectors: int

    @property
    def agree(self) -> bool:
        """Return whether all is as it should be."""
        return not any(self)


def check_counts(connection: sqlite3.Connection) -> CountCheck:
    """Compare the counts and rows beside the messages with them, each in one statement."""
    return CountCheck(
        _number(connection, _MISCOUNTED),
        _number(connection, f"SELECT count(*) {_OWNERLESS_ENTRY}"),
        _number(connection, f"SELECT count(*) {_OWNERLESS_VECTOR}"),
    )


def repair_counts(connection: sqlite3.Connection) -> None:
    """Make counts and rows agree with the messages, in one transaction."""
    with locked(connection):
        for statement in (_RECOUNT, _NONE_LEFT, f"DELETE {_OWNERLESS_ENTRY}", f"DELETE {_OWNERLESS_VECTOR}"):
            connection.execute(statement)


def _number(connection: sqlite3.Connection, statement: str) -> int:
    return int(connection.execute(statement).fetchone()[0])
