"""A step of a commit in SQLite: what it looks up, what statements do at once, and how a plan is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Final

import orjson
from google.protobuf.message import DecodeError

from nomemory.server import wire
from nomemory.server.message_filter import Filter
from nomemory.server.store.commit import CommitPlan, Key, entries_of
from nomemory.server.store.conditions import Clause, Expiry, all_of
from nomemory.server.store.expiry_sweeper import ExpiryResult
from nomemory.server.store.results import Deleted, Erased
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.conditions import SQLITE
from nomemory.server.store.sqlite.schema import LAST_ID, insert_rows, put_meta
from nomemory.server.store.tables import MESSAGES, USERS
from nomemory.server.store.versions import BucketState, StoredRequest, Version
from nomemory.server.store.write_queue import AnyPlannedJob, keys_of, requests_of

_KNOWN = "SELECT first_id, size FROM requests WHERE user_id=? AND digest=?"
_EXISTING = """
SELECT {living}, messages.user_id, messages.message_id, ts, seq, wire, e.vector
FROM json_each(?) AS wanted
CROSS JOIN messages INDEXED BY messages_by_id
  ON messages.user_id = json_extract(wanted.value, '$[0]') AND messages.message_id = json_extract(wanted.value, '$[1]')
LEFT JOIN embeddings AS e ON e.user_id = messages.user_id AND e.message_id = messages.message_id
"""
_MARK = "INSERT INTO removals SELECT ? + row_number() OVER (), user_id, message_id, seq FROM messages WHERE {which}"
_DROP_VECTORS = (
    "DELETE FROM embeddings WHERE user_id=? AND message_id IN (SELECT message_id FROM messages WHERE {which})"
)
_DROP_ENTRIES = """
DELETE FROM metadata_entries AS e WHERE user_id=? AND NOT EXISTS
  (SELECT 1 FROM messages AS m WHERE m.user_id = e.user_id AND m.ts = e.ts AND m.message_id = e.message_id)
"""
"""A condition on messages may rest on their entries, so those go last."""
_ENTRY = "DELETE FROM metadata_entries WHERE (user_id, mark, ts, message_id) = (?, ?, ?, ?)"
_DROP = "DELETE FROM messages WHERE {which}"
_ADD_UP = "ON CONFLICT DO UPDATE SET latest_seq = excluded.latest_seq, messages = messages + excluded.messages"

_USERS_MAX: Final = 1_000
"""Users that one piece of a sweep looks at for messages that are too old: a few milliseconds."""
_EXPIRED = """
SELECT user_id, message_id FROM messages INDEXED BY messages_by_expiry WHERE expire_us <= ? ORDER BY expire_us LIMIT ?
"""
_NEXT_USERS = "SELECT max(user_id) FROM (SELECT user_id FROM users WHERE user_id > ? ORDER BY user_id LIMIT ?)"
_TOO_OLD = """
SELECT m.user_id, m.message_id FROM users AS u CROSS JOIN messages AS m ON m.user_id = u.user_id AND m.ts <= ?
WHERE u.user_id > ? AND u.user_id <= ? LIMIT ?
"""

_BUCKET = 0
"""The only one: everybody's."""


class Step:
    """A part of a transaction: what is planned together, or what takes statements of its own; with `flush` at last.

    What has expired does not exist for it, and may be removed.

    Args:
        connection: to the log, for writing.
        held: what the step before left.
        lifetimes: tells what has expired.
    """

    def __init__(self, connection: sqlite3.Connection, held: BucketState, lifetimes: RetentionPolicy) -> None:
        self._connection = connection
        self._held = held
        self._lifetimes = lifetimes
        self._expiry = Expiry(SQLITE, lifetimes)
        self._plan = CommitPlan(lambda _user_id: _BUCKET)
        self._plan.begin({_BUCKET: held}, count(held.sequence + 1))

    def plan(self, jobs: Sequence[AnyPlannedJob]) -> None:
        """Do jobs that are planned in memory. What exists is looked up at once for all of them."""
        for request in requests_of(jobs):
            for first, size in self._connection.execute(_KNOWN, request):
                self._plan.add_request(request, StoredRequest(int.from_bytes(first, "big"), size))
        self._look_up(keys_of(self._plan, jobs))
        for job in jobs:
            job.plan(self._plan)

    def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete what a filter admits."""
        deleted = self._remove_where(user_id, all_of([*SQLITE.admitted(user_id, narrowed), self._expiry.unexpired()]))
        return Deleted(deleted, (), self._plan.latest_sequence_of(user_id))

    def delete_version(self, user_id: str, sequence: int) -> None:
        """Delete one version of a message, whatever its bytes are."""
        self._remove_where(user_id, Clause("user_id=? AND seq=?", (user_id, sequence)))

    def erase(self, user_id: str) -> Erased:
        """Delete all of a user. What has expired goes, too, and is not counted."""
        was_known = self._connection.execute("SELECT 1 FROM users WHERE user_id=?", (user_id,)).fetchone() is not None
        everything = SQLITE.of_user(user_id)
        self._remove_where(user_id, all_of([everything, self._expiry.expired()]))
        deleted = self._remove_where(user_id, everything)
        self._connection.execute("DELETE FROM requests WHERE user_id=?", (user_id,))
        return Erased(deleted, self._plan.latest_sequence_of(user_id), was_known)

    def remove_expired(self, after: str, most: int) -> ExpiryResult:
        """Remove up to `most` messages that have expired, wherever; then those too old, of users after `after`."""
        found = self._keys(_EXPIRED, self._lifetimes.now_us(), most)
        oldest_us = self._lifetimes.oldest_us()
        (until,) = self._connection.execute(_NEXT_USERS, (after, _USERS_MAX)).fetchone()
        if len(found) == most:
            until = after
        elif oldest_us is None or until is None:
            until = None
        else:
            too_old = self._keys(_TOO_OLD, oldest_us, after, until, most - len(found))
            until = after if len(found) + len(too_old) == most else until
            found += too_old
        return ExpiryResult(self._look_up(found), until)

    def flush(self) -> BucketState:
        """Write what is planned; return what the log has then."""
        self._drop(self._plan.dropped)
        insert_rows(self._connection, MESSAGES, [row for _, row in self._plan.messages()])
        for table, rows in self._plan.other_rows().items():
            insert_rows(self._connection, table, rows, otherwise=_ADD_UP if table is USERS else "")
        state = self._plan.changed_buckets().get(_BUCKET, self._held)
        if state.last_id != self._held.last_id:
            put_meta(self._connection, LAST_ID, state.last_id)
        return state

    def _look_up(self, keys: Iterable[Key]) -> int:
        """Learn which of some messages exist. What has expired is removed; return how many messages that was."""
        living, moments = self._expiry.unexpired()
        existing, expired = dict[Key, Version](), dict[Key, Version]()
        statement = _EXISTING.format(living=living)
        for lives, user, message_id, *version in self._connection.execute(statement, (*moments, orjson.dumps(keys))):
            (existing if lives else expired)[user, message_id] = Version(*version)
        self._plan.add_existing(existing, expired)
        return len(expired)

    def _keys(self, statement: str, *values: int | str) -> list[Key]:
        return self._connection.execute(statement, values).fetchall()

    def _remove_where(self, user_id: str, which: Clause) -> int:
        """Remove what a condition admits of a user; return how many messages that was."""
        condition, values = which
        before = self._plan.latest_sequence_of(user_id)
        marked = self._connection.execute(_MARK.format(which=condition), (before, *values)).rowcount
        if marked:
            self._connection.execute(_DROP_VECTORS.format(which=condition), (user_id, *values))
            self._connection.execute(_DROP.format(which=condition), values)
            self._connection.execute(_DROP_ENTRIES, (user_id,))
            self._plan.record_removed(user_id, marked, before + marked)
        return marked

    def _drop(self, versions: Mapping[Key, Version]) -> None:
        places = [(user, version.ts_us, message) for (user, message), version in versions.items()]
        self._connection.executemany("DELETE FROM messages WHERE user_id=? AND ts=? AND message_id=?", places)
        self._connection.executemany("DELETE FROM embeddings WHERE user_id=? AND message_id=?", list(versions))
        for (user_id, _), version in versions.items():
            try:
                self._connection.executemany(_ENTRY, entries_of(wire.decode(version.wire)))
            except DecodeError:  # it is damaged
                self._connection.execute(_DROP_ENTRIES, (user_id,))
