"""Execute one commit of the message log in PostgreSQL.

A transaction locks the rows in `buckets` of all affected users in ascending order, which prevents deadlocks. The
transaction allocates sequence numbers from `log_sequence` while it holds all locks, and keeps the locks until the
commit. Changes of a bucket therefore become visible in the order of their sequence numbers. Sequence numbers have gaps,
because a transaction may allocate more of them than it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nomemory.server.message import Message
from nomemory.server.message_filter import Filter
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.commit import NUMBER_BYTES, CommitPlan, Key
from nomemory.server.store.conditions import Clause, ExpiryConditions, join_clauses
from nomemory.server.store.expiry_sweeper import ExpiryResult
from nomemory.server.store.postgres import statements
from nomemory.server.store.postgres.connections import SequenceBehindError
from nomemory.server.store.postgres.erasure_register import (
    register_deleted_messages,
    register_message_erasures,
    register_user_erasure,
)
from nomemory.server.store.postgres.rows import POSTGRES, build_user_clause, number_placeholders, prepend_buckets
from nomemory.server.store.results import DeletionReceipt, ErasureReceipt
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.tables import MESSAGES
from nomemory.server.store.versions import BucketState, MessageVersion, StoredRequest
from nomemory.server.store.write_queue import AnyPlannedJob, collect_message_keys, collect_request_keys

if TYPE_CHECKING:
    from nomemory.server.store.postgres.connections import Connection

ExtractTokens = Callable[[Message], tuple[Sequence[int], bytes]]
"""Returns the columns `keys` and `tokens` of a message."""

_USERS_MAX: Final = 1_000
"""Maximum number of users in one step of the search for messages beyond the maximum age."""


class PostgresTransaction:
    """A transaction on the message log: call `begin`, then one of the methods for jobs, then `commit`.

    Expired messages are treated as missing and are removed. All coroutine methods can raise the errors of the database,
    and SequenceBehindError, after which the server must be restarted.

    Args:
        connection: a connection that nothing else uses during the transaction.
        extract_tokens: returns the columns of a message for the lexical index.
    """

    def __init__(self, connection: Connection, retention: RetentionPolicy, extract_tokens: ExtractTokens) -> None:
        self._connection = connection
        self._retention = retention
        self._expiry = ExpiryConditions(POSTGRES, retention)
        self._extract_tokens = extract_tokens
        self._plan = CommitPlan()

    @property
    def has_changes(self) -> bool:
        """Whether the transaction changes the message log."""
        return bool(self._plan.sequence)

    async def begin(self) -> None:
        """Begin the transaction without locking any bucket."""
        await self._connection.execute(statements.BEGIN)

    async def plan_jobs(self, jobs: Sequence[AnyPlannedJob]) -> None:
        """Look up the stored messages that the jobs concern, then plan the jobs."""
        keys = [key for job in jobs for key in job.keys]
        await self._lock_buckets((user_id for user_id, _ in keys), 2 * len(keys))  # 2: the new and the replaced version
        if requests := collect_request_keys(jobs):
            columns = _transpose_rows([(compute_bucket(user), user, digest) for user, digest in sorted(requests)], 3)
            for user, digest, first, size in await self._fetch_rows(statements.REQUESTS, *columns):
                self._plan.add_request((user, digest), StoredRequest(int.from_bytes(first, "big"), size))
        await self._look_up_messages(collect_message_keys(self._plan, jobs))
        for job in jobs:
            job.plan(self._plan)

    async def delete_matching(self, user_id: str, message_filter: Filter) -> DeletionReceipt:
        """Delete the messages of a user that match a filter."""
        await self._lock_buckets([user_id], 1)
        before = self._plan.get_latest_sequence(user_id)
        deleted = await self._remove_where(
            user_id, [*POSTGRES.build_match_clauses(user_id, message_filter), self._expiry.build_unexpired_clause()]
        )
        await register_deleted_messages(self._connection, user_id, before)
        return DeletionReceipt(deleted, (), self._plan.get_latest_sequence(user_id))

    async def erase(self, user_id: str) -> ErasureReceipt:
        """Delete all data of a user; expired messages are not counted in the result."""
        await self._lock_buckets([user_id], 1)
        user = (compute_bucket(user_id), user_id)
        was_known = bool(await self._fetch_rows(statements.KNOWN_USER, *user))
        await self._remove_where(user_id, [build_user_clause(user_id), self._expiry.build_expired_clause()])
        deleted = await self._remove_where(user_id, [build_user_clause(user_id)])
        await self._fetch_rows(statements.FORGET_REQUESTS, *user)
        sequence = self._plan.get_latest_sequence(user_id)
        await register_user_erasure(self._connection, user_id, sequence)
        return ErasureReceipt(deleted, sequence, was_known)

    async def erase_up_to(self, user_id: str, sequence: int) -> int:
        """Delete a user's messages up to a sequence number without registering the erasure; return their number."""
        await self._lock_buckets([user_id], 1)
        removed = await self._remove_where(user_id, [build_user_clause(user_id), Clause("sequence <= ?", (sequence,))])
        if removed:
            await self._fetch_rows(statements.FORGET_REQUESTS, compute_bucket(user_id), user_id)
        return removed

    async def delete_up_to(self, sequences: Mapping[Key, int]) -> int:
        """Delete the messages whose stored version has at most the given sequence number, and return their number.

        The register of erasures is not changed.
        """
        await self._lock_buckets({user_id for user_id, _ in sequences}, 2 * len(sequences))
        await self._look_up_messages(sorted(sequences))
        return self._plan.remove_versions_up_to(sequences)

    async def delete_expired_messages(self, after: str, limit: int) -> ExpiryResult:
        """Remove up to `limit` expired messages.

        Messages with an expiry time of their own are removed first, then messages that exceed the maximum age, of users
        whose ids follow `after`. Each message is checked again after its bucket has been locked.
        """
        expired = await self._fetch_keys(statements.EXPIRED, self._retention.now_us(), limit)
        cutoff_us = self._retention.compute_cutoff_us()
        ((until,),) = await self._fetch_rows(statements.NEXT_USERS, after, _USERS_MAX)
        if len(expired) == limit:
            until = after
        elif cutoff_us is None or until is None:
            until = None
        else:
            too_old = await self._fetch_keys(statements.TOO_OLD, cutoff_us, after, until, limit - len(expired))
            until = after if len(expired) + len(too_old) == limit else until
            expired |= too_old
        if not expired:
            return ExpiryResult(0, until)
        await self._lock_buckets({user_id for user_id, _ in expired}, len(expired))
        return ExpiryResult(await self._look_up_messages(sorted(expired)), until)

    async def commit(self) -> None:
        """Write the planned changes and commit them durably."""
        plan, buckets = self._plan, self._plan.find_changed_buckets()
        if buckets:
            if plan.dropped:
                await self._fetch_rows(
                    statements.REMOVE, *_transpose_rows(prepend_buckets(MESSAGES, list(plan.dropped)), 3)
                )
            records = [
                (compute_bucket(m.user_id), *row, *self._extract_tokens(m)) for m, row in plan.build_message_rows()
            ]
            if records:
                names = ("bucket", *MESSAGES.columns, "keys", "tokens")
                await self._connection.copy_records_to_table("messages", records=records, columns=names)
            columns = [
                column
                for table, rows in plan.build_rows_by_table().items()
                for column in _transpose_rows(prepend_buckets(table, rows), len(table.columns) + 1)
            ]
            states = [(bucket, state.sequence, encode_id_number(state.last_id)) for bucket, state in buckets.items()]
            await self._fetch_rows(statements.WRITE_ROWS, *columns, *_transpose_rows(states, 3))
        await register_message_erasures(self._connection, plan.erasures)
        await self._connection.execute("COMMIT")

    async def _lock_buckets(self, user_ids: Iterable[str], numbers: int) -> None:
        """Lock the buckets of all users that the transaction affects, and begin the plan.

        Args:
            user_ids: the ids of all affected users.
            numbers: how many sequence numbers to allocate for the plan; statement jobs allocate their own.
        """
        affected = sorted(set(map(compute_bucket, user_ids)))
        if not affected:
            return
        ((buckets, sequences, last_ids, drawn),) = await self._fetch_rows(statements.LOCK_BUCKETS, affected, numbers)
        if drawn and drawn[0] <= max(sequences):
            raise SequenceBehindError
        states = map(BucketState, sequences, (int.from_bytes(last, "big") for last in last_ids))
        self._plan.begin(dict(zip(buckets, states, strict=True)), drawn)

    async def _look_up_messages(self, keys: Sequence[Key]) -> int:
        """Add existing messages to the plan, remove the expired ones, and return the number of expired messages."""
        if not keys:
            return 0
        unexpired = self._expiry.build_unexpired_clause()
        statement = statements.EXISTING.format(live=unexpired.condition)
        columns = _transpose_rows(prepend_buckets(MESSAGES, keys), 3)
        existing, expired = dict[Key, MessageVersion](), dict[Key, MessageVersion]()
        for is_unexpired, user, message_id, *version in await self._fetch_rows(statement, *unexpired.values, *columns):
            (existing if is_unexpired else expired)[user, message_id] = MessageVersion(*version)
        self._plan.add_existing_messages(existing, expired)
        return len(expired)

    async def _remove_where(self, user_id: str, clauses: Sequence[Clause]) -> int:
        """Remove the messages of a user that match all conditions, and return their number."""
        condition, values = join_clauses(clauses)
        ((removed, latest),) = await self._fetch_rows(statements.REMOVE_WHERE.format(condition=condition), *values)
        self._plan.record_removals(user_id, removed, latest)
        return int(removed)

    async def _fetch_keys(self, statement: str, *values: str | int) -> set[Key]:
        return {(user_id, message_id) for user_id, message_id in await self._fetch_rows(statement, *values)}

    async def _fetch_rows(self, statement: str, *values: Any) -> list[Any]:  # noqa: ANN401 - the types depend on the statement
        """Execute a SQL statement with `?` placeholders, and return all rows."""
        return list(await self._connection.fetch(number_placeholders(statement), *values))


def encode_id_number(number: int) -> bytes:
    """Encode an id number for the table `buckets`; 0 becomes an empty byte string."""
    return number.to_bytes(NUMBER_BYTES, "big") if number else b""


def _transpose_rows(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    """Transpose rows into `width` columns, as lists of values."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
