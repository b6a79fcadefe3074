"""The durable backlog of the vector index.

A row means that a message has changed, not how: the work is to bring the index in line with the log, in any order. A
row is kept until the index has flushed the work to disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from nomemory.server.store.buckets import bucket_of
from nomemory.server.store.change_feed import Touched
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.sqlite_users import users_condition

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
"""Reset a backlog of an earlier version: the feed is read from the start. The index keeps its vectors."""

_EXTEND = "UPDATE work SET latest = max(latest, ?3) WHERE user_id = ?1 AND message_id = ?2 AND state = 0"
_ADD = f"""
INSERT INTO work (user_id, message_id, oldest, latest, bucket, state) VALUES (?1, ?2, ?4, ?3, ?5, {PENDING})
ON CONFLICT DO UPDATE SET
    oldest = iif(state = {DEAD_LETTER}, excluded.oldest, min(oldest, excluded.oldest)),
    latest = max(latest, excluded.latest), state = {PENDING}, reason = ''
"""  # noqa: S608 - the states are our own numbers
_SET_ASIDE = f"""
INSERT INTO work (bucket, user_id, message_id, oldest, latest, state, reason) VALUES (?1, ?2, ?3, ?4, ?4, {DEAD_LETTER}, ?5)
"""  # noqa: S608 - as above
_ASIDE = f"SELECT bucket, user_id, message_id, latest, reason FROM work WHERE state > 0 AND state = {DEAD_LETTER}"  # noqa: S608
_SETTLE = "UPDATE work SET state = ?, reason = ? WHERE user_id = ? AND message_id = ? AND latest = ? AND state = 0"
_KNOWN = "SELECT message_id FROM work WHERE user_id = ? AND message_id IN (SELECT value FROM json_each(?))"
_OLDEST = "SELECT value, (SELECT min(oldest) FROM work WHERE state = 0 AND bucket = value) FROM json_each(?)"
_PROGRESS = "SELECT fed, (SELECT min(oldest) FROM work WHERE state = 0 AND user_id = ?) FROM feed"
_TAKE = "SELECT user_id, message_id, latest, oldest = latest FROM work WHERE state = 0"


@dataclass(frozen=True, slots=True)
class Pending:
    """A message to index. `latest` is the latest change that was known when the work was taken.

    `is_single`: there was only one change since the message was indexed.
    """

    user_id: str
    message_id: str
    latest: int
    is_single: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class BacklogCounts:
    """The number of messages in the backlog, and of dead letters."""

    pending: int
    dead_letters: int


class BacklogReader:
    """Reads a backlog that a `Backlog` writes, also from another process. Belongs to the thread that created it.

    Calls take well below a millisecond, except the counts of a user with a very long backlog.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)

    def fed(self) -> FeedPosition:
        """Return the position up to which changes are in the backlog."""
        return FeedPosition.decoded(self._connection.execute("SELECT fed FROM feed").fetchone()[0])

    def is_behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be applied yet.

        The fed position and the oldest pending change are read in one statement, so that they are consistent.
        """
        fed, oldest = self._connection.execute(_PROGRESS, (user_id,)).fetchone()
        fed_of_user = fed if isinstance(fed, int) else FeedPosition.decoded(fed).of_user(user_id)
        return fed_of_user < sequence or (oldest is not None and oldest <= sequence)

    def is_pending(self, user_id: str) -> bool:
        """Return whether there is work for a user."""
        row = self._connection.execute("SELECT 1 FROM work WHERE state = 0 AND user_id = ? LIMIT 1", (user_id,))
        return row.fetchone() is not None

    def checkpoint(self) -> FeedPosition:
        """Return the position up to which everything is applied or a dead letter."""
        reached = self.fed()  # first, so that a change that is fed meanwhile is not counted
        buckets = orjson.dumps(list(range(len(reached.sequences))))
        oldest = dict(self._connection.execute(_OLDEST, (buckets,)).fetchall())
        return FeedPosition(
            tuple(
                sequence if (first := oldest[bucket]) is None else min(sequence, first - 1)
                for bucket, sequence in enumerate(reached.sequences)
            )
        )

    def counts(self, user_id: str | None = None, prefix: str = "") -> BacklogCounts:
        """Count messages, of one user or of all whose ids begin with a prefix."""
        dead_letters = "SELECT count(*) FROM work WHERE state > 0 AND state = ?"
        if user_id is None and not prefix:
            return BacklogCounts(self._number("SELECT pending FROM feed"), self._number(dead_letters, (DEAD_LETTER,)))
        condition, values = users_condition(user_id, prefix)
        pending = self._number(f"SELECT count(*) FROM work WHERE state = 0 AND {condition}", values)  # noqa: S608 - ours
        return BacklogCounts(pending, self._number(f"{dead_letters} AND {condition}", (DEAD_LETTER, *values)))

    def dead_letter_ids(self, user_id: str, limit: int = 100) -> list[str]:
        """Return the ids of the first dead letters of a user, in order."""
        rows = self._connection.execute(
            "SELECT message_id FROM work WHERE state > 0 AND state = ? AND user_id = ? ORDER BY message_id LIMIT ?",
            (DEAD_LETTER, user_id, limit),
        )
        return [message_id for (message_id,) in rows]

    def known(self, user_id: str, message_ids: Sequence[str]) -> set[str]:
        """Return those of a user's messages that are pending, applied but not flushed, or dead letters."""
        rows = self._connection.execute(_KNOWN, (user_id, orjson.dumps(list(message_ids))))
        return {message_id for (message_id,) in rows}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _number(self, statement: str, values: Sequence[str | int] = ()) -> int:
        return int(self._connection.execute(statement, values).fetchone()[0])


class Backlog(BacklogReader):
    """A durable set of messages to index, and the position in the change feed.

    A file has one writer and any number of `BacklogReader`s. Calls may come from any thread but must not overlap.
    Commits sometimes wait for the disk, which an event loop should not do.

    After a power cut the latest commits may be lost, which means that work is repeated. A damaged file is replaced by
    an empty one: then all work is repeated.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._connection = _open_or_recreate(path)
        with self._transaction():
            again = self._connection.execute("UPDATE work SET state = 0 WHERE state > 0 AND state = ?", (APPLIED,))
            self._connection.execute("UPDATE feed SET pending = pending + ?", (again.rowcount,))

    def follow(self, log: str) -> None:
        """Record which log this backlog follows (`LogIdentity.name`), unless one is recorded already."""
        self._connection.execute("INSERT INTO followed SELECT ?, 0 WHERE NOT EXISTS (SELECT 1 FROM followed)", (log,))

    def feed(self, changes: Iterable[Touched], until: FeedPosition | None = None) -> None:
        """Add changes of the feed, and record the position up to which there are no others."""
        spans = _spans(changes)
        with self._transaction():
            known = self._connection.executemany(_EXTEND, [span[:3] for span in spans]).rowcount if spans else 0
            reached = self.fed().merged(until) if until is not None else self.fed()
            many = len(reached.sequences) > 1
            self._connection.executemany(_ADD, [(*span, bucket_of(span[0]) if many else 0) for span in spans])
            self._connection.execute(
                "UPDATE feed SET fed = ?, pending = pending + ?", (_stored(reached), len(spans) - known)
            )

    def start_over(
        self,
        position: FeedPosition = _BEGINNING,
        aside: Iterable[tuple[int, str, str, int, str]] = (),
    ) -> None:
        """Clear the backlog, so that the feed is read from a position on.

        Args:
            position: the position.
            aside: dead letters: bucket, user, message, latest known change, reason.
        """
        with self._transaction():
            self._connection.execute("DELETE FROM work")
            self._connection.executemany(_SET_ASIDE, aside)
            self._connection.execute("UPDATE feed SET fed = ?, pending = 0", (_stored(position),))

    def take(self, hot_users: Sequence[str], limit: int) -> list[Pending]:
        """Return the next work: that of hot users first, in equal shares, then the oldest. Nothing is marked."""
        taken: dict[tuple[str, str], Pending] = {}
        share = -(-limit // max(1, len(hot_users)))
        for user_id in hot_users:
            if len(taken) < limit:
                self._collect(taken, "AND user_id = ? ORDER BY oldest LIMIT ?", (user_id, share))
        if len(taken) < limit:
            self._collect(taken, "ORDER BY oldest LIMIT ?", (limit,))
        return list(taken.values())[:limit]

    def mark_applied(self, done: Iterable[Pending]) -> None:
        """Record that the index has this work, not flushed yet. A message that changed meanwhile stays pending.

        From now on the collection has points, all of which this backlog knows.
        """
        applied = [(APPLIED, "", i.user_id, i.message_id, i.latest) for i in done]
        self._settle(applied, "UPDATE followed SET is_begun = 1 WHERE NOT is_begun")

    def park(self, aside: Mapping[Pending, str]) -> None:
        """Make messages dead letters until they change, each with a reason."""
        self._settle([(DEAD_LETTER, reason, i.user_id, i.message_id, i.latest) for i, reason in aside.items()])

    def forget_applied(self) -> None:
        """Delete applied work. Call it when the index has flushed everything that was marked as applied."""
        with self._transaction():
            self._connection.execute("DELETE FROM work WHERE state > 0 AND state = ?", (APPLIED,))

    def wipe_removed(self) -> None:
        """Rewrite the file, to erase deleted rows. It is small unless the backlog is long."""
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def aside(self) -> list[tuple[int, str, str, int, str]]:
        """Return the dead letters: bucket, user, message, latest known change, reason."""
        return self._connection.execute(_ASIDE).fetchall()

    def followed(self) -> FeedPosition | None:
        """Return the position up to which the index has followed the log; None if it may have no points."""
        row = self._connection.execute("SELECT is_begun FROM followed").fetchone()
        return self.checkpoint() if row is not None and row[0] else None

    def _transaction(self) -> sqlite3.Connection:
        """Begin a transaction. As a context manager it commits, or rolls back after an error."""
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def _collect(self, taken: dict[tuple[str, str], Pending], which: str, values: Sequence[str | int]) -> None:
        for user_id, message_id, latest, is_single in self._connection.execute(f"{_TAKE} {which}", values):
            item = Pending(user_id, message_id, latest, bool(is_single))
            taken.setdefault((user_id, message_id), item)

    def _settle(self, settled: Sequence[tuple[int, str, str, str, int]], *also: str) -> None:
        if not settled:
            return
        with self._transaction():
            for statement in also:
                self._connection.execute(statement)
            count = self._connection.executemany(_SETTLE, settled).rowcount
            self._connection.execute("UPDATE feed SET pending = pending - ?", (count,))


def _stored(position: FeedPosition) -> int | bytes:
    return position.latest if len(position.sequences) == 1 else position.encoded()


def _open_or_recreate(path: Path) -> sqlite3.Connection:
    try:
        return _open(path)
    except sqlite3.OperationalError:  # locked, or no room: the file itself may be sound
        raise
    except sqlite3.DatabaseError:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return _open(path)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
        connection.executescript(_RESET_SCHEMA)
    connection.executescript(_SCHEMA)
    return connection


def _spans(changes: Iterable[Touched]) -> list[tuple[str, str, int, int]]:
    """Return each message once: user, message, latest and oldest sequence."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for change in changes:
        key = (change.user_id, change.message_id)
        latest, oldest = spans.get(key, (change.sequence, change.sequence))
        spans[key] = (max(latest, change.sequence), min(oldest, change.sequence))
    return [(*key, *span) for key, span in spans.items()]
