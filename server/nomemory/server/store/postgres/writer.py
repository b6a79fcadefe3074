"""Write the message log to PostgreSQL over several connections, and commit several queued jobs together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from nomemory.server.store.postgres.connections import (
    DATABASE_WIDE_ERRORS,
    ERRORS,
    RETRYABLE_ERRORS,
    Database,
    make_storage_fault,
)
from nomemory.server.store.postgres.transaction import ExtractTokens, PostgresTransaction
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.write_queue import AnyJob, PlannedJob, QueuedLogWriter, StatementJob, group_jobs

if TYPE_CHECKING:
    import asyncpg

_GROUP_MAX: Final = 64
"""Maximum number of jobs in one commit: a compromise between throughput and latency."""

_ATTEMPTS_MAX: Final = 10
"""Maximum number of attempts for a commit that fails with a retryable error."""


class PartitionCommitter:
    """Commits the queued jobs of one partition of the write queue in order. An instance belongs to one event loop.

    Args:
        take: removes up to the given number of jobs from the partition's queue and returns them.
        announce: called after each commit that changed messages.
        extract_tokens: returns the columns of a message for the lexical index.
    """

    def __init__(
        self,
        database: Database,
        take: Callable[[int], list[AnyJob]],
        announce: Callable[[], None],
        retention: RetentionPolicy,
        extract_tokens: ExtractTokens,
    ) -> None:
        self._database = database
        self._take = take
        self._announce = announce
        self._retention = retention
        self._extract_tokens = extract_tokens
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._committing: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Start committing queued jobs, unless commits are already running."""
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit_queued())
            self._committing.add_done_callback(self._resume_after_error)

    async def close(self) -> None:
        """Commit the queued jobs, then close the connection."""
        while self._committing is not None and not self._committing.done():
            await asyncio.wait([self._committing])
        if self._connection is not None:
            self._connection.terminate()

    async def _commit_queued(self) -> None:
        """Commit queued jobs until the queue is empty; skip jobs whose calls were cancelled."""
        while taken := self._take(_GROUP_MAX):
            try:
                for group in group_jobs(job for job in taken if job.done.set_running_or_notify_cancel()):
                    await self._commit_together(group)
            except BaseException as error:
                # A bug. Fail all callers, and use a new connection for the next commit.
                self._disconnect()
                _settle_jobs(taken, error)
                raise

    def _resume_after_error(self, ended: asyncio.Task[None]) -> None:
        """Resume committing the queued jobs after an unexpected error."""
        if not ended.cancelled() and ended.exception() is not None:
            self.wake()

    async def _commit_together(self, group: Sequence[AnyJob]) -> None:
        """Commit jobs together; if the commit fails, commit each job alone, so that only faulty jobs fail."""
        failure = await self._attempt_commit(group)
        if failure is None or len(group) == 1 or isinstance(failure, DATABASE_WIDE_ERRORS):
            _settle_jobs(group, failure)
            return
        for job in group:
            _settle_jobs([job], await self._attempt_commit([job]))

    async def _attempt_commit(self, group: Sequence[AnyJob]) -> BaseException | None:
        """Try to commit jobs; return the error if the commit failed or its outcome is unknown."""
        failure: BaseException | None = None
        for _ in range(_ATTEMPTS_MAX):
            failure = await self._attempt_commit_once(group)
            if not isinstance(failure, RETRYABLE_ERRORS):
                break
        return failure

    async def _attempt_commit_once(self, group: Sequence[AnyJob]) -> BaseException | None:
        try:
            await self._commit_jobs(group)
        except ERRORS as error:
            await self._roll_back()
            return error
        return None

    async def _commit_jobs(self, group: Sequence[AnyJob]) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
        transaction = PostgresTransaction(self._connection, self._retention, self._extract_tokens)
        await transaction.begin()
        if planned := [job for job in group if isinstance(job, PlannedJob)]:
            await transaction.plan_jobs(planned)
        for job in group:
            if isinstance(job, StatementJob):
                job.result = await job.work(transaction)
        await transaction.commit()
        if transaction.has_changes:
            self._announce()

    async def _roll_back(self) -> None:
        connection = self._connection
        if connection is None or connection.is_closed() or not connection.is_in_transaction():
            return
        with suppress(*ERRORS):
            await connection.execute("ROLLBACK")
            return
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


def _settle_jobs(group: Sequence[AnyJob], failure: BaseException | None) -> None:
    if isinstance(failure, ERRORS):
        failure = make_storage_fault(failure, "written")
    for job in group:
        job.resolve(failure)


class PostgresLogWriter(QueuedLogWriter):
    """A writer of a PostgreSQL message log, to which several servers may write. An instance belongs to one event loop.

    Jobs of a partition are committed in order, and jobs of other partitions concurrently. A batch is in the partition
    of its first user, so the writes to a user are in order if each of them waits for the previous one. A call whose
    commit has an unknown outcome fails with STORAGE_UNAVAILABLE and can be retried with the same ids or the same
    `request_id`.

    Args:
        queue_max: maximum number of queued jobs; further jobs are rejected with OVERLOADED.
        queue_max_bytes: maximum size of the queued messages; further jobs are rejected with OVERLOADED.
        announce: called after each commit that changed messages.
        connections: the number of connections, which is also the number of partitions of the queue.
        extract_tokens: returns the columns of a message for the lexical index.
    """

    def __init__(
        self,
        database: Database,
        *,
        queue_max: int,
        queue_max_bytes: int,
        announce: Callable[[], None],
        connections: int = 1,
        retention: RetentionPolicy | None = None,
        extract_tokens: ExtractTokens,
    ) -> None:
        super().__init__(queue_max, queue_max_bytes, connections)
        self._committers = [
            PartitionCommitter(
                database,
                partial(self._queue.take, partition=partition),
                announce,
                retention or RetentionPolicy(),
                extract_tokens,
            )
            for partition in range(connections)
        ]

    async def close(self) -> None:
        """Commit the queued jobs, then close the connections."""
        for committer in self._committers:
            await committer.close()

    def _wake(self, partition: int) -> None:
        self._committers[partition].wake()
