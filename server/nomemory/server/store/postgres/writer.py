"""Writes the message log to PostgreSQL over several connections. Each commits all jobs at once that wait for it."""

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
    storage_fault,
)
from nomemory.server.store.postgres.transaction import ExtractTokens, PostgresTransaction
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.write_queue import AnyJob, PlannedJob, QueuedLogWriter, StatementJob, groups

if TYPE_CHECKING:
    import asyncpg

_GROUP_MAX: Final = 64
"""Most jobs in one commit: enough to share its cost, few enough that no caller waits long for the others."""

_ATTEMPTS_MAX: Final = 10
"""How often a commit is made again that the database turned back."""


class Committer:
    """Commits jobs in their order. Belongs to one event loop.

    Args:
        database: where the log is.
        take: takes up to so many jobs that wait for it.
        announce: called after each commit that changed a message.
        lifetimes: tells what has expired.
        extract_tokens: reads what a row holds for search by words.
    """

    def __init__(
        self,
        database: Database,
        take: Callable[[int], list[AnyJob]],
        announce: Callable[[], None],
        lifetimes: RetentionPolicy,
        extract_tokens: ExtractTokens,
    ) -> None:
        self._database = database
        self._take = take
        self._announce = announce
        self._lifetimes = lifetimes
        self._extract_tokens = extract_tokens
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._committing: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Have what waits committed."""
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit_queued())
            self._committing.add_done_callback(self._go_on)

    async def close(self) -> None:
        """Finish what waits, then close the connection."""
        while self._committing is not None and not self._committing.done():
            await asyncio.wait([self._committing])
        if self._connection is not None:
            self._connection.terminate()

    async def _commit_queued(self) -> None:
        """Commit until nothing is queued. A caller who has gone before a job was taken has not made the call."""
        while taken := self._take(_GROUP_MAX):
            try:
                for group in groups(job for job in taken if job.done.set_running_or_notify_cancel()):
                    await self._commit_together(group)
            except BaseException as error:
                # A fault of the program. Nobody is left waiting, and the next commit gets another connection.
                self._hang_up()
                _settle(taken, error)
                raise

    def _go_on(self, ended: asyncio.Task[None]) -> None:
        """Commit what came while a fault of the program ended a commit. Those whose commit it was were told of it."""
        if not ended.cancelled() and ended.exception() is not None:
            self.wake()

    async def _commit_together(self, group: Sequence[AnyJob]) -> None:
        """Commit jobs at once; where that fails, each of them alone: one that cannot be written spoils no other."""
        failure = await self._attempt(group)
        if failure is None or len(group) == 1 or isinstance(failure, DATABASE_WIDE_ERRORS):
            _settle(group, failure)
            return
        for job in group:
            _settle([job], await self._attempt([job]))

    async def _attempt(self, group: Sequence[AnyJob]) -> BaseException | None:
        """Commit jobs; return what went wrong, after which the log is as before, or nobody knows."""
        failure: BaseException | None = None
        for _ in range(_ATTEMPTS_MAX):
            failure = await self._attempt_once(group)
            if not isinstance(failure, RETRYABLE_ERRORS):
                break
        return failure

    async def _attempt_once(self, group: Sequence[AnyJob]) -> BaseException | None:
        try:
            await self._commit(group)
        except ERRORS as error:
            await self._undo()
            return error
        return None

    async def _commit(self, group: Sequence[AnyJob]) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
        transaction = PostgresTransaction(self._connection, self._lifetimes, self._extract_tokens)
        await transaction.begin()
        if planned := [job for job in group if isinstance(job, PlannedJob)]:
            await transaction.do(planned)
        for job in group:
            if isinstance(job, StatementJob):
                job.answer = await job.work(transaction)
        await transaction.commit()
        if transaction.has_changes:
            self._announce()

    async def _undo(self) -> None:
        connection = self._connection
        if connection is None or connection.is_closed() or not connection.is_in_transaction():
            return
        with suppress(*ERRORS):
            await connection.execute("ROLLBACK")
            return
        self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


def _settle(group: Sequence[AnyJob], failure: BaseException | None) -> None:
    if isinstance(failure, ERRORS):
        failure = storage_fault(failure, "written")
    for job in group:
        job.settle(failure)


class PostgresLogWriter(QueuedLogWriter):
    """A writer of a log. Others may write to the same log elsewhere.

    Jobs of one user are done in their order. Those of other buckets of users need not wait for them.

    Belongs to one event loop. A call whose commit may or may not have been made is answered STORAGE_UNAVAILABLE: the
    same call with the same ids, or the same `request_id`, finds out.

    Args:
        database: where the log is.
        queue_max: how many jobs may wait; more are refused with OVERLOADED.
        queue_max_bytes: how many bytes of messages may wait; the same.
        announce: called after each commit that changed a message.
        connections: how many connections it writes through.
        lifetimes: tells what has expired.
        extract_tokens: reads what a row holds for search by words.
    """

    def __init__(
        self,
        database: Database,
        *,
        queue_max: int,
        queue_max_bytes: int,
        announce: Callable[[], None],
        connections: int = 1,
        lifetimes: RetentionPolicy | None = None,
        extract_tokens: ExtractTokens,
    ) -> None:
        super().__init__(queue_max, queue_max_bytes, connections)
        self._committers = [
            Committer(
                database, partial(self._queue.take, partition=partition), announce, lifetimes or RetentionPolicy(), extract_tokens
            )
            for partition in range(connections)
        ]

    async def close(self) -> None:
        """Finish what is queued, then close the connections."""
        for committer in self._committers:
            await committer.close()

    def _wake(self, partition: int) -> None:
        self._committers[partition].wake()
