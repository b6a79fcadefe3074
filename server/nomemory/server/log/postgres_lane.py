"""One connection of the log's writer in PostgreSQL, and the jobs that go through it: one commit for all that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Final

from nomemory.server.log.lifetimes import Lifetimes
from nomemory.server.log.postgres_connections import ERRORS, EVERY_JOB, TURNED_BACK, Database, storage_fault
from nomemory.server.log.postgres_jobs import AnyJob
from nomemory.server.log.postgres_transaction import PostgresTransaction
from nomemory.server.log.postgres_words import ReadWords

if TYPE_CHECKING:
    import asyncpg

_GROUP_MAX: Final = 64
"""Most jobs in one commit: enough to share its cost, few enough that no caller waits long for the others."""

_ATTEMPTS_MAX: Final = 10
"""How often a commit is made again that the database turned back."""


class PostgresLane:
    """Commits jobs in their order. Belongs to one event loop.

    Args:
        database: where the log is.
        take: takes up to so many jobs that wait for this lane.
        announce: called after each commit that changed a message.
        lifetimes: tells what has expired.
        read_words: reads what a row holds for search by words.
    """

    def __init__(
        self,
        database: Database,
        take: Callable[[int], list[AnyJob]],
        announce: Callable[[], None],
        lifetimes: Lifetimes,
        read_words: ReadWords,
    ) -> None:
        self._database = database
        self._take = take
        self._announce = announce
        self._lifetimes = lifetimes
        self._read_words = read_words
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
                for group in _groups([job for job in taken if not job.done.done()]):
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
        if failure is None or len(group) == 1 or isinstance(failure, EVERY_JOB):
            _settle(group, failure)
            return
        for job in group:
            _settle([job], await self._attempt([job]))

    async def _attempt(self, group: Sequence[AnyJob]) -> BaseException | None:
        """Commit jobs; return what went wrong, after which the log is as before, or nobody knows."""
        failure: BaseException | None = None
        for _ in range(_ATTEMPTS_MAX):
            failure = await self._attempt_once(group)
            if not isinstance(failure, TURNED_BACK):
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
        transaction = PostgresTransaction(self._connection, self._lifetimes, self._read_words)
        await transaction.begin()
        if user_ids := {user_id for job in group for user_id in job.user_ids()}:
            await transaction.lock(user_ids, sum(job.numbers() for job in group))
        keys = [key for job in group for key in job.wanted()]
        await transaction.look_up(keys, [request for job in group for request in job.requests()])
        for job in group:
            await job.attempt(transaction)
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


def _groups(jobs: Sequence[AnyJob]) -> Iterator[list[AnyJob]]:
    """Return the jobs in their order: those that can share a commit together, others alone."""
    for together, some in groupby(jobs, lambda job: job.can_be_grouped):
        if together:
            yield list(some)
        else:
            yield from ([job] for job in some)


def _settle(group: Sequence[AnyJob], failure: BaseException | None) -> None:
    if isinstance(failure, ERRORS):
        failure = storage_fault(failure, "written")
    for job in group:
        job.settle(failure)
