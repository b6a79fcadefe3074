"""One commit of the log in PostgreSQL.

It locks the rows in `buckets` of all users whom it may change, in ascending order, so that no two commits wait for each
other. The numbers of `log_sequence` are drawn when all locks are held, and the locks are held to the commit: so the
sequences of one bucket become visible in their order. How many are needed is not known then, so there are gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.message import Message
from nomemory.server.message_filter import Filter
from nomemory.server.store.buckets import bucket_of
from nomemory.server.store.commit import NUMBER_BYTES, CommitPlan, Key
from nomemory.server.store.conditions import Clause, Expiry, all_of
from nomemory.server.store.expiry_sweeper import ExpiryResult
from nomemory.server.store.postgres import statements
from nomemory.server.store.postgres.connections import SequenceBehindError
from nomemory.server.store.postgres.rows import POSTGRES, in_buckets, numbered, of_user
from nomemory.server.store.results import Deleted, Erased
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.tables import MESSAGES
from nomemory.server.store.versions import BucketState, StoredRequest, Version
from nomemory.server.store.write_queue import AnyPlannedJob, keys_of, requests_of

if TYPE_CHECKING:
    from nomemory.server.store.postgres.connections import Connection

ExtractTokens = Callable[[Message], tuple[Sequence[int], bytes]]
"""Reads what a row holds for search by words: its keys and its tokens. It depends on nothing but the message."""

_USERS_MAX: Final = 1_000
"""Users that one piece of a sweep looks at for messages that are too old."""


class PostgresTransaction:
    """One commit. What exists is looked up at once for all its jobs. They are planned one after another, in memory.

    First `begin`, then one of the methods that do something, `commit` at last. What has expired does not exist for it;
    it is removed.

    Args:
        connection: to the log; nobody else uses it meanwhile.
        lifetimes: tells what has expired.
        extract_tokens: reads what a row holds for search by words.

    Raises (any method that is awaited): one of the database's errors; SequenceBehindError: the log cannot be written
        before a server is started again, which mends it.
    """

    def __init__(self, connection: Connection, lifetimes: RetentionPolicy, extract_tokens: ExtractTokens) -> None:
        self._connection = connection
        self._lifetimes = lifetimes
        self._expiry = Expiry(POSTGRES, lifetimes)
        self._extract_tokens = extract_tokens
        self._plan = CommitPlan()

    @property
    def has_changes(self) -> bool:
        """Whether the log is another one after it."""
        return bool(self._plan.sequence)

    async def begin(self) -> None:
        """Begin it. Nothing is locked yet."""
        await self._connection.execute(statements.BEGIN)

    async def do(self, jobs: Sequence[AnyPlannedJob]) -> None:
        """Do jobs that are planned in memory."""
        keys = [key for job in jobs for key in job.keys]
        await self._lock((user_id for user_id, _ in keys), 2 * len(keys))  # what is stored, and what it replaces
        if requests := requests_of(jobs):
            places = _columns([(bucket_of(user), user, digest) for user, digest in sorted(requests)], 3)
            for user, digest, first, size in await self._fetch(statements.REQUESTS, *places):
                self._plan.add_request((user, digest), StoredRequest(int.from_bytes(first, "big"), size))
        await self._look_up(keys_of(self._plan, jobs))
        for job in jobs:
            job.plan(self._plan)

    async def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete what a filter admits."""
        await self._lock([user_id], 1)
        deleted = await self._remove_where(user_id, [*POSTGRES.admitted(user_id, narrowed), self._expiry.unexpired()])
        return Deleted(deleted, (), self._plan.latest_sequence_of(user_id))

    async def erase(self, user_id: str) -> Erased:
        """Delete all of a user. What has expired goes, too, and is not counted."""
        await self._lock([user_id], 1)
        user = (bucket_of(user_id), user_id)
        was_known = bool(await self._fetch(statements.KNOWN_USER, *user))
        await self._remove_where(user_id, [of_user(user_id), self._expiry.expired()])
        deleted = await self._remove_where(user_id, [of_user(user_id)])
        await self._fetch(statements.FORGET_REQUESTS, *user)
        return Erased(deleted, self._plan.latest_sequence_of(user_id), was_known)

    async def remove_expired(self, after: str, most: int) -> ExpiryResult:
        """Remove up to `most` messages that have expired, wherever; then those too old, of users after `after`.

        They are found first. Then their buckets are locked, and what is found there still goes.
        """
        found = await self._keys(statements.EXPIRED, self._lifetimes.now_us(), most)
        oldest_us = self._lifetimes.oldest_us()
        ((until,),) = await self._fetch(statements.NEXT_USERS, after, _USERS_MAX)
        if len(found) == most:
            until = after
        elif oldest_us is None or until is None:
            until = None
        else:
            too_old = await self._keys(statements.TOO_OLD, oldest_us, after, until, most - len(found))
            until = after if len(found) + len(too_old) == most else until
            found |= too_old
        if not found:
            return ExpiryResult(0, until)
        await self._lock({user_id for user_id, _ in found}, len(found))
        return ExpiryResult(await self._look_up(sorted(found)), until)

    async def commit(self) -> None:
        """Write what was put together, durably."""
        plan, buckets = self._plan, self._plan.changed_buckets()
        if buckets:
            if plan.dropped:
                await self._fetch(statements.REMOVE, *_columns(in_buckets(MESSAGES, list(plan.dropped)), 3))
            records = [(bucket_of(m.user_id), *row, *self._extract_tokens(m)) for m, row in plan.messages()]
            if records:
                names = ("bucket", *MESSAGES.columns, "keys", "tokens")
                await self._connection.copy_records_to_table("messages", records=records, columns=names)
            others = [
                column
                for table, rows in plan.other_rows().items()
                for column in _columns(in_buckets(table, rows), len(table.columns) + 1)
            ]
            states = [(bucket, state.sequence, id_bytes(state.last_id)) for bucket, state in buckets.items()]
            await self._fetch(statements.FINISH, *others, *_columns(states, 3))
        await self._connection.execute("COMMIT")

    async def _lock(self, user_ids: Iterable[str], numbers: int) -> None:
        """Wait until nobody else writes to the buckets of some users, and take up where the last commits ended.

        Once in a transaction, for all users whom it may change. `numbers` is how many sequences are needed at most;
        what its own statements draw comes on top.
        """
        wanted = sorted(set(map(bucket_of, user_ids)))
        if not wanted:
            return
        ((buckets, sequences, last_ids, drawn),) = await self._fetch(statements.LOCKED, wanted, numbers)
        if drawn and drawn[0] <= max(sequences):
            raise SequenceBehindError
        states = map(BucketState, sequences, (int.from_bytes(last, "big") for last in last_ids))
        self._plan.begin(dict(zip(buckets, states, strict=True)), drawn)

    async def _look_up(self, keys: Sequence[Key]) -> int:
        """Learn which of some messages exist. What has expired is removed; return how many messages that was."""
        if not keys:
            return 0
        living = self._expiry.unexpired()
        statement = statements.EXISTING.format(living=living.condition)
        places = _columns(in_buckets(MESSAGES, keys), 3)
        existing, expired = dict[Key, Version](), dict[Key, Version]()
        for lives, user, message_id, *version in await self._fetch(statement, *living.values, *places):
            (existing if lives else expired)[user, message_id] = Version(*version)
        self._plan.add_existing(existing, expired)
        return len(expired)

    async def _remove_where(self, user_id: str, which: Sequence[Clause]) -> int:
        """Remove at once what conditions admit of a user; return how many messages that was."""
        condition, values = all_of(which)
        ((removed, latest),) = await self._fetch(statements.REMOVE_WHERE.format(which=condition), *values)
        self._plan.record_removed(user_id, removed, latest)
        return int(removed)

    async def _keys(self, statement: str, *values: str | int) -> set[Key]:
        return {(user_id, message_id) for user_id, message_id in await self._fetch(statement, *values)}

    async def _fetch(self, statement: str, *values: Any) -> list[Any]:  # noqa: ANN401 - as the statement says
        """Return all rows of a statement with question marks."""
        return list(await self._connection.fetch(numbered(statement), *values))


def id_bytes(number: int) -> bytes:
    """Return the number of an id as a bucket keeps it; nothing for 0."""
    return number.to_bytes(NUMBER_BYTES, "big") if number else b""


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    """Return rows as columns, of which there are `width`."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
