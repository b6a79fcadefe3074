"""The durable backlog of messages that the vector index has yet to index.

A row of the backlog records that a message has changed, but not how. The indexer reads the current version of the
message from the message log, so the order of updates does not matter. A row is deleted after the index has flushed the
points of the message to disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.sqlite_users import build_users_condition

PENDING, APPLIED, DEAD_LETTER = range(3)
_BEGINNING = FeedPosition()

_SCHEMA = """
CREATE TABLE IF NOT EXISTS work (
    user_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    oldest INTEGER NOT NULL,
    latest INTEGER NOT NULL,
    state INTEGER NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    bucket INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, message_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pending_by_age ON work (oldest) WHERE state = 0;
CREATE INDEX IF NOT EXISTS pending_by_bucket ON work (bucket, oldest) WHERE state = 0;
CREATE INDEX IF NOT EXISTS pending_by_user ON work (user_id, oldest) WHERE state = 0;
CREATE INDEX IF NOT EXISTS settled ON work (state, user_id, message_id) WHERE state > 0;
CREATE TABLE IF NOT EXISTS followed (log TEXT NOT NULL, is_begun INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS feed (fed INTEGER NOT NULL, pending INTEGER NOT NULL);
INSERT INTO feed (fed, pending) SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM feed);
PRAGMA user_version = 2;
"""
_VERSION = 2
_RESET_SCHEMA = "DROP TABLE IF EXISTS work; DROP TABLE IF EXISTS feed;"
"""Statements that reset a backlog of an earlier version.

The indexer then reads the feed from the start, and the index keeps its vectors.
"""

_EXTEND = "UPDATE work SET latest = max(latest, ?3) WHERE user_id = ?1 AND message_id = ?2 AND state = 0"
_ADD = f"""
INSERT INTO work (user_id, message_id, oldest, latest, bucket, state) VALUES (?1, ?2, ?4, ?3, ?5, {PENDING})
ON CONFLICT DO UPDATE SET
    oldest = iif(state = {DEAD_LETTER}, excluded.oldest, min(oldest, excluded.oldest)),
    latest = max(latest, excluded.latest), state = {PENDING}, reason = ''
"""  # noqa: S608 - constants
_INSERT_DEAD_LETTERS = f"""
INSERT INTO work (bucket, user_id, message_id, oldest, latest, state, reason)
VALUES (?1, ?2, ?3, ?4, ?4, {DEAD_LETTER}, ?5)
"""  # noqa: S608 - as above
_SELECT_DEAD_LETTERS = (
    f"SELECT bucket, user_id, message_id, latest, reason FROM work WHERE state > 0 AND state = {DEAD_LETTER}"  # noqa: S608
)
_SETTLE = "UPDATE work SET state = ?, reason = ? WHERE user_id = ? AND message_id = ? AND latest = ? AND state = 0"
_SELECT_TRACKED = "SELECT message_id FROM work WHERE user_id = ? AND message_id IN (SELECT value FROM json_each(?))"
_OLDEST = "SELECT value, (SELECT min(oldest) FROM work WHERE state = 0 AND bucket = value) FROM json_each(?)"
_PROGRESS = "SELECT fed, (SELECT min(oldest) FROM work WHERE state = 0 AND user_id = ?) FROM feed"
_TAKE = "SELECT user_id, message_id, latest, oldest = latest FROM work WHERE state = 0"


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """A message in the backlog that has to be indexed.

    Attributes:
        latest: sequence number of the latest change when the row was read.
        is_single: whether the message has changed only once since it was indexed.
    """

    user_id: str
    message_id: str
    latest: int
    is_single: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class BacklogCounts:
    """The number of pending messages and the number of dead letters."""

    pending: int
    dead_letters: int


class BacklogReader:
    """Reads a backlog file, which another process may be writing. A reader belongs to the thread that created it.

    Calls take less than a millisecond, except `count_messages` of a user with a very long backlog.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)

    def read_feed_position(self) -> FeedPosition:
        """Return the position up to which all changes have been added to the backlog."""
        return FeedPosition.decode(self._connection.execute("SELECT fed FROM feed").fetchone()[0])

    def is_behind(self, user_id: str, sequence: int) -> bool:
        """Return whether the index may lack changes of a user up to a sequence number.

        One statement reads the position of the feed and the oldest pending change, so the two are consistent with each
        other.
        """
        fed, oldest = self._connection.execute(_PROGRESS, (user_id,)).fetchone()
        fed_of_user = fed if isinstance(fed, int) else FeedPosition.decode(fed).get_user_sequence(user_id)
        return fed_of_user < sequence or (oldest is not None and oldest <= sequence)

    def has_pending_messages(self, user_id: str) -> bool:
        """Return whether a user has pending messages."""
        row = self._connection.execute("SELECT 1 FROM work WHERE state = 0 AND user_id = ? LIMIT 1", (user_id,))
        return row.fetchone() is not None

    def read_checkpoint(self) -> FeedPosition:
        """Return the position up to which every change is indexed or recorded as a dead letter."""
        fed = self.read_feed_position()  # read first, so that changes fed in the meantime are left out
        buckets = orjson.dumps(list(range(len(fed.sequences))))
        oldest = dict(self._connection.execute(_OLDEST, (buckets,)).fetchall())
        return FeedPosition(
            tuple(
                sequence if (first := oldest[bucket]) is None else min(sequence, first - 1)
                for bucket, sequence in enumerate(fed.sequences)
            )
        )

    def count_messages(self, user_id: str | None = None, prefix: str = "") -> BacklogCounts:
        """Count the pending messages and dead letters of one user, or of all users whose ids begin with a prefix."""
        dead_letters = "SELECT count(*) FROM work WHERE state > 0 AND state = ?"
        if user_id is None and not prefix:
            return BacklogCounts(
                self._fetch_number("SELECT pending FROM feed"), self._fetch_number(dead_letters, (DEAD_LETTER,))
            )
        condition, values = build_users_condition(user_id, prefix)
        pending = self._fetch_number(f"SELECT count(*) FROM work WHERE state = 0 AND {condition}", values)  # noqa: S608 - ours
        return BacklogCounts(pending, self._fetch_number(f"{dead_letters} AND {condition}", (DEAD_LETTER, *values)))

    def list_dead_letter_ids(self, user_id: str, limit: int = 100) -> list[str]:
        """Return the ids of at most `limit` dead letters of a user, in ascending order."""
        rows = self._connection.execute(
            "SELECT message_id FROM work WHERE state > 0 AND state = ? AND user_id = ? ORDER BY message_id LIMIT ?",
            (DEAD_LETTER, user_id, limit),
        )
        return [message_id for (message_id,) in rows]

    def find_tracked_ids(self, user_id: str, message_ids: Sequence[str]) -> set[str]:
        """Return the subset of message ids that the backlog contains: pending, not yet flushed, or dead letters."""
        rows = self._connection.execute(_SELECT_TRACKED, (user_id, orjson.dumps(list(message_ids))))
        return {message_id for (message_id,) in rows}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _fetch_number(self, statement: str, values: Sequence[str | int] = ()) -> int:
        return int(self._connection.execute(statement, values).fetchone()[0])


class Backlog(BacklogReader):
    """A durable set of messages to index, with the position up to which the change feed was read.

    A backlog file has one writer and any number of `BacklogReader`s. Methods may be called from any thread, but not
    concurrently. Do not use a backlog from an event loop, because commits may wait for the disk.

    A power failure may lose the latest commits, and a damaged file is replaced by an empty one. After a power failure
    or file damage, the indexer indexes some messages again.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._connection = _open_or_recreate(path)
        with self._begin_transaction():
            reset = self._connection.execute("UPDATE work SET state = 0 WHERE state > 0 AND state = ?", (APPLIED,))
            self._connection.execute("UPDATE feed SET pending = pending + ?", (reset.rowcount,))

    def record_log(self, log: str) -> None:
        """Record the name (`LogIdentity.name`) of the message log to follow, unless a name is recorded."""
        self._connection.execute("INSERT INTO followed SELECT ?, 0 WHERE NOT EXISTS (SELECT 1 FROM followed)", (log,))

    def add_changes(self, changes: Iterable[ChangeRef], until: FeedPosition | None = None) -> None:
        """Add changes to the backlog. If `until` is given, record it as the position up to which the feed was read."""
        spans = _merge_changes_by_message(changes)
        with self._begin_transaction():
            extended = self._connection.executemany(_EXTEND, [span[:3] for span in spans]).rowcount if spans else 0
            fed = self.read_feed_position().maximum(until) if until is not None else self.read_feed_position()
            has_buckets = len(fed.sequences) > 1
            self._connection.executemany(
                _ADD, [(*span, compute_bucket(span[0]) if has_buckets else 0) for span in spans]
            )
            self._connection.execute(
                "UPDATE feed SET fed = ?, pending = pending + ?", (_encode_position(fed), len(spans) - extended)
            )

    def start_over(
        self,
        position: FeedPosition = _BEGINNING,
        dead_letters: Iterable[tuple[int, str, str, int, str]] = (),
    ) -> None:
        """Clear the backlog, so that the change feed is read again.

        Args:
            position: the position after which to read the feed.
            dead_letters: dead letters to add afterwards, as `(bucket, user, message, latest change, reason)`.
        """
        with self._begin_transaction():
            self._connection.execute("DELETE FROM work")
            self._connection.executemany(_INSERT_DEAD_LETTERS, dead_letters)
            self._connection.execute("UPDATE feed SET fed = ?, pending = 0", (_encode_position(position),))

    def read_pending_messages(self, hot_users: Sequence[str], limit: int) -> list[PendingMessage]:
        """Return pending messages: first those of recently queried users in equal shares, then the oldest."""
        taken: dict[tuple[str, str], PendingMessage] = {}
        share = -(-limit // max(1, len(hot_users)))
        for user_id in hot_users:
            if len(taken) < limit:
                self._collect_pending_messages(taken, "AND user_id = ? ORDER BY oldest LIMIT ?", (user_id, share))
        if len(taken) < limit:
            self._collect_pending_messages(taken, "ORDER BY oldest LIMIT ?", (limit,))
        return list(taken.values())[:limit]

    def mark_applied(self, done: Iterable[PendingMessage]) -> None:
        """Mark messages as indexed but not flushed; messages that changed after they were read stay pending."""
        applied = [(APPLIED, "", i.user_id, i.message_id, i.latest) for i in done]
        self._settle_messages(applied, "UPDATE followed SET is_begun = 1 WHERE NOT is_begun")

    def add_dead_letters(self, reasons: Mapping[PendingMessage, str]) -> None:
        """Record messages as dead letters, with their reasons, until the messages change."""
        self._settle_messages(
            [(DEAD_LETTER, reason, i.user_id, i.message_id, i.latest) for i, reason in reasons.items()]
        )

    def delete_applied_rows(self) -> None:
        """Delete the rows of indexed messages, whose points the index must have flushed to disk."""
        with self._begin_transaction():
            self._connection.execute("DELETE FROM work WHERE state > 0 AND state = ?", (APPLIED,))

    def erase_deleted(self) -> None:
        """Rewrite the file to erase deleted rows."""
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def list_dead_letters(self) -> list[tuple[int, str, str, int, str]]:
        """Return the dead letters as `(bucket, user, message, latest change, reason)`."""
        return self._connection.execute(_SELECT_DEAD_LETTERS).fetchall()

    def read_followed_position(self) -> FeedPosition | None:
        """Return the checkpoint of the index, or None if the backlog has never recorded an indexed message."""
        row = self._connection.execute("SELECT is_begun FROM followed").fetchone()
        return self.read_checkpoint() if row is not None and row[0] else None

    def _begin_transaction(self) -> sqlite3.Connection:
        """Begin a transaction; the returned context manager commits the transaction or rolls it back."""
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def _collect_pending_messages(
        self, taken: dict[tuple[str, str], PendingMessage], clause: str, values: Sequence[str | int]
    ) -> None:
        for user_id, message_id, latest, is_single in self._connection.execute(f"{_TAKE} {clause}", values):
            item = PendingMessage(user_id, message_id, latest, bool(is_single))
            taken.setdefault((user_id, message_id), item)

    def _settle_messages(self, settled: Sequence[tuple[int, str, str, str, int]], *statements: str) -> None:
        if not settled:
            return
        with self._begin_transaction():
            for statement in statements:
                self._connection.execute(statement)
            count = self._connection.executemany(_SETTLE, settled).rowcount
            self._connection.execute("UPDATE feed SET pending = pending - ?", (count,))


def _encode_position(position: FeedPosition) -> int | bytes:
    return position.latest if len(position.sequences) == 1 else position.encode()


def _open_or_recreate(path: Path) -> sqlite3.Connection:
    try:
        return _open_database(path)
    except sqlite3.OperationalError:  # locked or disk full: the file may be sound
        raise
    except sqlite3.DatabaseError:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return _open_database(path)


def _open_database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
        connection.executescript(_RESET_SCHEMA)
    connection.executescript(_SCHEMA)
    return connection


def _merge_changes_by_message(changes: Iterable[ChangeRef]) -> list[tuple[str, str, int, int]]:
    """Return `(user, message, latest sequence number, oldest sequence number)` for each changed message."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for change in changes:
        key = (change.user_id, change.message_id)
        latest, oldest = spans.get(key, (change.sequence, change.sequence))
        spans[key] = (max(latest, change.sequence), min(oldest, change.sequence))
    return [(*key, *span) for key, span in spans.items()]
