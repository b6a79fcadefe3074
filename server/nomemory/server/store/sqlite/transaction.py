"""Execute a part of a commit of the message log in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Final

import orjson
from google.protobuf.message import DecodeError

from nomemory.server import wire
from nomemory.server.message_filter import Filter
from nomemory.server.store.commit import CommitPlan, Key, build_metadata_rows
from nomemory.server.store.conditions import Clause, ExpiryConditions, join_clauses
from nomemory.server.store.expiry_sweeper import ExpiryResult
from nomemory.server.store.results import DeletionReceipt, ErasureReceipt
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.conditions import SQLITE
from nomemory.server.store.sqlite.erasure_register import (
    register_deleted_messages,
    register_message_erasures,
    register_user_erasure,
)
from nomemory.server.store.sqlite.schema import LAST_ID, insert_rows, put_meta
from nomemory.server.store.tables import MESSAGES, USERS
from nomemory.server.store.versions import BucketState, MessageVersion, StoredRequest
from nomemory.server.store.write_queue import AnyPlannedJob, collect_message_keys, collect_request_keys

_SELECT_REQUEST = "SELECT first_id, size FROM requests WHERE user_id=? AND digest=?"
_SELECT_EXISTING = """
SELECT {live}, messages.user_id, messages.message_id, ts, seq, wire, e.vector
FROM json_each(?) AS wanted
CROSS JOIN messages INDEXED BY messages_by_id
  ON messages.user_id = json_extract(wanted.value, '$[0]') AND messages.message_id = json_extract(wanted.value, '$[1]')
LEFT JOIN embeddings AS e ON e.user_id = messages.user_id AND e.message_id = messages.message_id
"""
_INSERT_REMOVALS = (
    "INSERT INTO removals SELECT ? + row_number() OVER (), user_id, message_id, seq FROM messages WHERE {condition}"
)
_DELETE_VECTORS = (
    "DELETE FROM embeddings WHERE user_id=? AND message_id IN (SELECT message_id FROM messages WHERE {condition})"
)
_DELETE_ORPHANED_ENTRIES = """
DELETE FROM metadata_entries AS e WHERE user_id=? AND NOT EXISTS
  (SELECT 1 FROM messages AS m WHERE m.user_id = e.user_id AND m.ts = e.ts AND m.message_id = e.message_id)
"""
"""Executed last, because the conditions of the other statements may use metadata entries."""
_DELETE_ENTRY = "DELETE FROM metadata_entries WHERE (user_id, mark, ts, message_id) = (?, ?, ?, ?)"
_DELETE_REQUESTS = "DELETE FROM requests WHERE user_id=?"
_DELETE_MESSAGES = "DELETE FROM messages WHERE {condition}"
_ADD_COUNTS = "ON CONFLICT DO UPDATE SET latest_seq = excluded.latest_seq, messages = messages + excluded.messages"

_USERS_MAX: Final = 1_000
"""Maximum number of users in one step of the search for messages beyond the maximum age. A step takes milliseconds."""
_EXPIRED = """
SELECT user_id, message_id FROM messages INDEXED BY messages_by_expiry WHERE expire_us <= ? ORDER BY expire_us LIMIT ?
"""
_NEXT_USERS = "SELECT max(user_id) FROM (SELECT user_id FROM users WHERE user_id > ? ORDER BY user_id LIMIT ?)"
_TOO_OLD = """
SELECT m.user_id, m.message_id FROM users AS u CROSS JOIN messages AS m ON m.user_id = u.user_id AND m.ts <= ?
WHERE u.user_id > ? AND u.user_id <= ? LIMIT ?
"""

_BUCKET = 0
"""The number of the only bucket of a SQLite message log."""


class TransactionStep:
    """A part of a transaction: a group of planned jobs, or one statement job. Call `write_planned_rows` at the end.

    Expired messages are treated as missing and may be removed.

    Args:
        initial: the state of the message log before this step.
    """

    def __init__(self, connection: sqlite3.Connection, initial: BucketState, retention: RetentionPolicy) -> None:
        self._connection = connection
        self._initial = initial
        self._retention = retention
        self._expiry = ExpiryConditions(SQLITE, retention)
        self._plan = CommitPlan(lambda _user_id: _BUCKET)
        self._plan.begin({_BUCKET: initial}, count(initial.sequence + 1))

    def plan_jobs(self, jobs: Sequence[AnyPlannedJob]) -> None:
        """Look up the stored messages that the jobs concern, then plan the jobs."""
        for request in collect_request_keys(jobs):
            for first, size in self._connection.execute(_SELECT_REQUEST, request):
                self._plan.add_request(request, StoredRequest(int.from_bytes(first, "big"), size))
        self._look_up_messages(collect_message_keys(self._plan, jobs))
        for job in jobs:
            job.plan(self._plan)

    def delete_matching(self, user_id: str, message_filter: Filter) -> DeletionReceipt:
        """Delete the messages of a user that match a filter."""
        before = self._plan.get_latest_sequence(user_id)
        deleted = self._remove_where(
            user_id,
            join_clauses([*SQLITE.build_match_clauses(user_id, message_filter), self._expiry.build_unexpired_clause()]),
        )
        register_deleted_messages(self._connection, before)
        return DeletionReceipt(deleted, (), self._plan.get_latest_sequence(user_id))

    def delete_version(self, user_id: str, sequence: int) -> None:
        """Delete a version of a message without decoding it."""
        self._remove_where(user_id, Clause("user_id=? AND seq=?", (user_id, sequence)))

    def erase(self, user_id: str) -> ErasureReceipt:
        """Delete all data of a user; expired messages are not counted in the result."""
        was_known = self._connection.execute("SELECT 1 FROM users WHERE user_id=?", (user_id,)).fetchone() is not None
        everything = SQLITE.of_user(user_id)
        self._remove_where(user_id, join_clauses([everything, self._expiry.build_expired_clause()]))
        deleted = self._remove_where(user_id, everything)
        self._connection.execute(_DELETE_REQUESTS, (user_id,))
        sequence = self._plan.get_latest_sequence(user_id)
        register_user_erasure(self._connection, user_id, sequence)
        return ErasureReceipt(deleted, sequence, was_known)

    def erase_up_to(self, user_id: str, sequence: int) -> int:
        """Delete a user's messages up to a sequence number without registering the erasure; return their number."""
        removed = self._remove_where(user_id, Clause("user_id=? AND seq<=?", (user_id, sequence)))
        if removed:
            self._connection.execute(_DELETE_REQUESTS, (user_id,))
        return removed

    def delete_up_to(self, sequences: Mapping[Key, int]) -> int:
        """Delete the messages whose stored version has at most the given sequence number, and return their number.

        The register of erasures is not changed.
        """
        self._look_up_messages(sequences)
        return self._plan.remove_versions_up_to(sequences)

    def delete_expired_messages(self, after: str, limit: int) -> ExpiryResult:
        """Remove up to `limit` expired messages.

        Messages with an expiry time of their own are removed first, then messages that exceed the maximum age, of users
        whose ids follow `after`.
        """
        expired = self._fetch_keys(_EXPIRED, self._retention.now_us(), limit)
        cutoff_us = self._retention.compute_cutoff_us()
        (until,) = self._connection.execute(_NEXT_USERS, (after, _USERS_MAX)).fetchone()
        if len(expired) == limit:
            until = after
        elif cutoff_us is None or until is None:
            until = None
        else:
            too_old = self._fetch_keys(_TOO_OLD, cutoff_us, after, until, limit - len(expired))
            until = after if len(expired) + len(too_old) == limit else until
            expired += too_old
        return ExpiryResult(self._look_up_messages(expired), until)

    def write_planned_rows(self) -> BucketState:
        """Write the planned changes, and return the new state of the message log."""
        self._delete_versions(self._plan.dropped)
        insert_rows(self._connection, MESSAGES, [row for _, row in self._plan.build_message_rows()])
        for table, rows in self._plan.build_rows_by_table().items():
            insert_rows(self._connection, table, rows, on_conflict=_ADD_COUNTS if table is USERS else "")
        register_message_erasures(self._connection, self._plan.erasures)
        state = self._plan.find_changed_buckets().get(_BUCKET, self._initial)
        if state.last_id != self._initial.last_id:
            put_meta(self._connection, LAST_ID, state.last_id)
        return state

    def _look_up_messages(self, keys: Iterable[Key]) -> int:
        """Add existing messages to the plan, remove the expired ones, and return the number of expired messages."""
        unexpired, expiry_values = self._expiry.build_unexpired_clause()
        existing, expired = dict[Key, MessageVersion](), dict[Key, MessageVersion]()
        statement = _SELECT_EXISTING.format(live=unexpired)
        for is_unexpired, user, message_id, *version in self._connection.execute(
            statement, (*expiry_values, orjson.dumps(list(keys)))
        ):
            (existing if is_unexpired else expired)[user, message_id] = MessageVersion(*version)
        self._plan.add_existing_messages(existing, expired)
        return len(expired)

    def _fetch_keys(self, statement: str, *values: int | str) -> list[Key]:
        return self._connection.execute(statement, values).fetchall()

    def _remove_where(self, user_id: str, clause: Clause) -> int:
        """Remove the messages of a user that match a condition, and return their number."""
        condition, values = clause
        before = self._plan.get_latest_sequence(user_id)
        removed = self._connection.execute(_INSERT_REMOVALS.format(condition=condition), (before, *values)).rowcount
        if removed:
            self._connection.execute(_DELETE_VECTORS.format(condition=condition), (user_id, *values))
            self._connection.execute(_DELETE_MESSAGES.format(condition=condition), values)
            self._connection.execute(_DELETE_ORPHANED_ENTRIES, (user_id,))
            self._plan.record_removals(user_id, removed, before + removed)
        return removed

    def _delete_versions(self, versions: Mapping[Key, MessageVersion]) -> None:
        keys = [(user, version.ts_us, message) for (user, message), version in versions.items()]
        self._connection.executemany("DELETE FROM messages WHERE user_id=? AND ts=? AND message_id=?", keys)
        self._connection.executemany("DELETE FROM embeddings WHERE user_id=? AND message_id=?", list(versions))
        for (user_id, _), version in versions.items():
            try:
                self._connection.executemany(_DELETE_ENTRY, build_metadata_rows(wire.decode(version.wire)))
            except DecodeError:  # a damaged message
                self._connection.execute(_DELETE_ORPHANED_ENTRIES, (user_id,))
