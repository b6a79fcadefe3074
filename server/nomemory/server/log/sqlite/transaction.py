"""One commit of the log, and how it finds what has expired.

The ids that the log makes for messages that come without one.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import TracebackType
from typing import Final, NamedTuple, Self

import orjson

from nomemory.server.log.damage import checksum
from nomemory.server.log.expiry import Lifetimes, Swept
from nomemory.server.log.protocol import Deleted, Erased, OnConflict, Written
from nomemory.server.log.sqlite.conditions import (
    TABLE,
    Clause,
    Expiry,
    Place,
    Row,
    all_clauses,
    forget_entries,
    joined,
    rows_of,
)
from nomemory.server.log.sqlite.schema import DERIVED_IDS, LAST_ID, meta
from nomemory.server.log.writing import (
    BatchPlan,
    Key,
    Named,
    Version,
    digest_of,
    nameless_users,
    numbered,
    plan_batch,
    reused,
    to_remember,
)
from nomemory.server.message import Filter, IdNumbers, Message, derived_id

_KNOWN = "SELECT user_id, first_id, size FROM requests WHERE digest=? AND user_id IN (SELECT value FROM json_each(?))"
_SOME = """
SELECT DISTINCT m.user_id FROM json_each(?) AS wanted CROSS JOIN messages AS m INDEXED BY messages_by_id
  ON m.user_id = json_extract(wanted.value, '$[0]') AND m.message_id = json_extract(wanted.value, '$[1]')
"""


class GivenIds:
    """Makes ids that grow, and gives the messages of a request the same ids when it comes again.

    Args:
        connection: to the log, for writing.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._saved = int(meta(connection, LAST_ID) or "0")
        self._numbers = IdNumbers(self._saved)
        self._has_derived = meta(connection, DERIVED_IDS) is not None

    def name(self, messages: Sequence[Message], request_id: str) -> Named:
        """Give an id to every message that has none.

        Raises:
            Fault: MESSAGE_CONFLICT, the request id was another batch's.
        """
        nameless = nameless_users(messages)
        if not nameless:
            return Named(messages)
        if request_id:
            return self._of_request(messages, nameless, request_id)
        return Named(numbered(messages, dict.fromkeys(nameless, self._numbers.take(len(messages)))))

    def remember(self, named: Named) -> None:
        """Keep what a request got."""
        self._connection.executemany("INSERT INTO requests VALUES (?, ?, ?, ?)", named.requests)

    def forget(self, user_id: str) -> None:
        """Drop what is remembered of a user's requests."""
        self._connection.execute("DELETE FROM requests WHERE user_id=?", (user_id,))

    def save(self) -> None:
        """Write down the last number, so that later ones are larger whatever becomes of this process."""
        if self._numbers.last != self._saved:
            row = (LAST_ID, str(self._numbers.last))
            self._connection.execute(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value=excluded.value", row
            )

    def saved(self) -> None:
        """Hear that what `save` wrote is committed."""
        self._saved = self._numbers.last

    def _of_request(self, messages: Sequence[Message], users: set[str], request_id: str) -> Named:
        digest = digest_of(request_id)
        known = self._known(users, digest, len(messages))
        derived = self._derived(messages, users - known.keys(), request_id)
        messages = _renamed(messages, derived)
        new = users - known.keys() - derived.keys()
        if not new:
            return Named(numbered(messages, known))
        first = self._numbers.take(len(messages))
        requests = to_remember(new, digest, first, len(messages))
        return Named(numbered(messages, {**known, **dict.fromkeys(new, first)}), requests)

    def _known(self, users: set[str], digest: bytes, size: int) -> dict[str, int]:
        rows = self._connection.execute(_KNOWN, (digest, orjson.dumps(sorted(users)))).fetchall()
        if any(other != size for _, _, other in rows):
            raise reused()
        return {user: int.from_bytes(first, "big") for user, first, _ in rows}

    def _derived(self, messages: Sequence[Message], users: set[str], request_id: str) -> Mapping[str, list[str]]:
        """Return the ids that a log of schema 1 gave to this very request, by user and place, if it did."""
        if not (self._has_derived and users):
            return {}
        places = range(len(messages))
        derived = {user: [derived_id(request_id, user, place) for place in places] for user in users}
        wanted = [
            (message.user_id, derived[message.user_id][place])
            for place, message in enumerate(messages)
            if not message.message_id and message.user_id in users
        ]
        return {user: derived[user] for (user,) in self._connection.execute(_SOME, (orjson.dumps(wanted),))}


def _renamed(messages: Sequence[Message], ids: Mapping[str, list[str]]) -> Sequence[Message]:
    if not ids:
        return messages
    return [
        message._replace(message_id=ids[message.user_id][place])
        if not message.message_id and message.user_id in ids
        else message
        for place, message in enumerate(messages)
    ]


_EXISTING = """
SELECT {living}, m.user_id, m.message_id, m.ts, m.seq, m.wire, e.vector
FROM json_each(?) AS wanted
CROSS JOIN messages AS m INDEXED BY messages_by_id
  ON m.user_id = json_extract(wanted.value, '$[0]') AND m.message_id = json_extract(wanted.value, '$[1]')
LEFT JOIN embeddings AS e ON e.user_id = m.user_id AND e.message_id = m.message_id
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


_DROP = "DELETE FROM messages WHERE {which}"
_ADD_UP = "ON CONFLICT DO UPDATE SET latest_seq = excluded.latest_seq, messages = messages + excluded.messages"
_ROWS_MAX = 512
"""Rows in one statement. The interpreter's lock is let go with each step of SQLite, and has to be waited for again."""


class Transaction:
    """One commit. Its methods check everything before they write anything, so that a refused batch leaves no trace.

    What has expired does not exist for them; they may remove it.

    Args:
        connection: to the log, for writing.
        sequence: the latest sequence that was given out.
        ids: makes ids for messages that have none.
        lifetimes: tells what has expired.

    Attributes:
        sequence: the latest sequence that was given out.
    """

    def __init__(self, connection: sqlite3.Connection, sequence: int, ids: GivenIds, lifetimes: Lifetimes) -> None:
        self._connection = connection
        self._ids = ids
        self._lifetimes = lifetimes
        self._expiry = Expiry(lifetimes)
        self.sequence = sequence

    def __enter__(self) -> Self:
        self._connection.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._ids.save()
                self._connection.execute("COMMIT")
                self._ids.saved()
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str) -> Written:
        """Store a batch.

        Raises:
            Fault: MESSAGE_CONFLICT; then nothing of the batch was written.
        """
        named = self._ids.name(messages, request_id)
        existing = self._existing([(message.user_id, message.message_id) for message in named.messages])
        plan = plan_batch(named.messages, existing, on_conflict)
        self._remove(plan.removes, gone=False)
        self._store(plan)
        self._ids.remember(named)
        ids = tuple(message.message_id for message in named.messages)
        return Written(tuple(plan.outcomes), self.sequence if plan.stores else plan.covering, ids)

    def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user."""
        wanted = dict.fromkeys(message_ids)
        existing = self._existing([(user_id, message_id) for message_id in wanted])
        self._remove(existing, gone=True)
        missing = tuple(message_id for message_id in wanted if (user_id, message_id) not in existing)
        return Deleted(len(existing), missing, self.sequence)

    def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete what a filter admits."""
        living, moments = self._expiry.living()
        which, values = joined([*all_clauses(user_id, narrowed), Clause(living, moments)])
        deleted = self._remove_where(user_id, which, values)
        return Deleted(deleted, (), self.sequence)

    def delete_version(self, user_id: str, sequence: int) -> Deleted:
        """Delete one version of a message, whatever its bytes are."""
        deleted = self._remove_where(user_id, "user_id=? AND seq=?", (user_id, sequence))
        return Deleted(deleted, (), self.sequence)

    def erase(self, user_id: str) -> Erased:
        """Delete all of a user."""
        was_known = self._connection.execute("SELECT 1 FROM users WHERE user_id=?", (user_id,)).fetchone() is not None
        expired, moments = self._expiry.expired()
        self._remove_where(user_id, f"user_id=? AND {expired}", (user_id, *moments))
        deleted = self._remove_where(user_id, "user_id=?", (user_id,))
        self._ids.forget(user_id)
        return Erased(deleted, self.sequence, was_known)

    def remove_expired(self, after: str, most: int) -> Swept:
        """Remove up to `most` messages that have expired; of those that are too old, of users after `after`."""
        found = find_expired(self._connection, self._lifetimes, after, most)
        self._remove(found.versions, gone=True)
        return Swept(len(found.versions), found.after)

    def _existing(self, keys: Iterable[Key]) -> dict[Key, Version]:
        """Return the versions of messages that have not expired; those that have are removed."""
        living, moments = self._expiry.living()
        rows = self._connection.execute(_EXISTING.format(living=living), (*moments, orjson.dumps(sorted(set(keys)))))
        existing, expired = dict[Key, Version](), dict[Key, Version]()
        for lives, user, message_id, *version in rows:
            (existing if lives else expired)[user, message_id] = Version(*version)
        self._remove(expired, gone=True)
        return existing

    def _remove_where(self, user_id: str, which: str, values: Sequence[object]) -> int:
        """Remove what a condition admits of a user; return how many messages that was."""
        marked = self._connection.execute(_MARK.format(which=which), (self.sequence, *values)).rowcount
        if not marked:
            return 0
        self.sequence += marked
        self._connection.execute(_DROP_VECTORS.format(which=which), (user_id, *values))
        self._connection.execute(_DROP.format(which=which), values)
        self._connection.execute(_DROP_ENTRIES, (user_id,))
        self._count(Counter({user_id: marked}), sign=-1)
        return marked

    def _remove(self, versions: Mapping[Key, Version], *, gone: bool) -> None:
        if not versions:
            return
        removals = [(self._next(), *key, version.sequence) for key, version in versions.items()]
        self._connection.executemany("INSERT INTO removals VALUES (?, ?, ?, ?)", removals)
        self._connection.executemany(
            "DELETE FROM messages WHERE user_id=? AND ts=? AND message_id=?",
            [(user, version.ts_us, message) for (user, message), version in versions.items()],
        )
        places = [Place(user, version.ts_us, message, version.wire) for (user, message), version in versions.items()]
        forget_entries(self._connection, places)
        self._connection.executemany("DELETE FROM embeddings WHERE user_id=? AND message_id=?", list(versions))
        if gone:
            self._count(Counter(user for user, _ in versions), sign=-1)

    def _store(self, plan: BatchPlan) -> None:
        rows, vectors, entries = [], [], list[Row]()
        for store in plan.stores.values():
            m = store.message
            key = (m.user_id, m.ts_us, m.message_id)
            crc = checksum(m.user_id, self._next(), store.wire)
            rows.append((*key, self.sequence, m.role.value, m.conversation_id, store.wire, m.expire_us, crc))
            entries += rows_of(m)
            if m.embedding is not None:
                vectors.append((m.user_id, m.message_id, m.embedding))
        self._insert("messages", rows)
        self._insert("embeddings", vectors)
        self._insert(TABLE, entries)
        created = Counter(user for user, message in plan.stores if (user, message) not in plan.removes)
        self._count(Counter({user: created[user] for user, _ in plan.stores}), sign=1)

    def _insert(self, table: str, rows: Sequence[tuple[object, ...]], *, otherwise: str = "") -> None:
        for at in range(0, len(rows), _ROWS_MAX):
            some = rows[at : at + _ROWS_MAX]
            row = f"({', '.join('?' * len(some[0]))})"
            values = ", ".join([row] * len(some))
            self._connection.execute(
                f"INSERT INTO {table} VALUES {values} {otherwise}",  # noqa: S608 - names are ours, values are bound
                list(chain.from_iterable(some)),
            )

    def _count(self, per_user: Counter[str], *, sign: int) -> None:
        rows = [(user, self.sequence, sign * count) for user, count in per_user.items()]
        self._insert("users", rows, otherwise=_ADD_UP)

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence


_USERS_MAX: Final = 1_000
"""Users that one piece looks at for messages that are too old: a few milliseconds."""


_EXPIRED = """
SELECT user_id, message_id, ts, seq, wire FROM messages INDEXED BY messages_by_expiry
WHERE expire_us <= ? ORDER BY expire_us LIMIT ?
"""
_NEXT_USERS = "SELECT max(user_id) FROM (SELECT user_id FROM users WHERE user_id > ? ORDER BY user_id LIMIT ?)"
_TOO_OLD = """
SELECT m.user_id, m.message_id, m.ts, m.seq, m.wire FROM users AS u CROSS JOIN messages AS m
  ON m.user_id = u.user_id AND m.ts <= ?
WHERE u.user_id > ? AND u.user_id <= ? LIMIT ?
"""


class Piece(NamedTuple):
    """What one step of a sweep found, and the user after whom the next goes on; None at the end."""

    versions: Mapping[Key, Version]
    after: str | None


def find_expired(connection: sqlite3.Connection, lifetimes: Lifetimes, after: str, most: int) -> Piece:
    """Return up to `most` versions that have expired, wherever; then those too old, of users after `after`."""
    found = _versions(connection, _EXPIRED, (lifetimes.now_us(), most))
    if len(found) == most:
        return Piece(found, after)
    oldest_us = lifetimes.oldest_us()
    (until,) = connection.execute(_NEXT_USERS, (after, _USERS_MAX)).fetchone()
    if oldest_us is None or until is None:
        return Piece(found, None)
    remaining = most - len(found)
    too_old = _versions(connection, _TOO_OLD, (oldest_us, after, until, remaining))
    return Piece(found | too_old, after if len(too_old) == remaining else until)


def _versions(connection: sqlite3.Connection, statement: str, values: tuple[int | str, ...]) -> dict[Key, Version]:
    rows = connection.execute(statement, values)
    return {(user, message): Version(ts_us, sequence, wire, None) for user, message, ts_us, sequence, wire in rows}
