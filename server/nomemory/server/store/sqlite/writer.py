"""Writes the message log to SQLite: one thread, one commit for all queued jobs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from nomemory.server.faults import Fault, Reason
from nomemory.server.store.retention import RetentionPolicy
from nomemory.server.store.sqlite.schema import locked, open_for_writing, state_of
from nomemory.server.store.sqlite.transaction import Step
from nomemory.server.store.write_queue import AnyJob, PlannedJob, QueuedLogWriter, StatementJob, groups

Answer = TypeVar("Answer")

_GROUP_MAX = 64
"""Most jobs in one commit: enough to share its cost, few enough that no caller waits long for the others."""


class SqliteLogWriter(QueuedLogWriter):
    """The one writer of a log.

    Args:
        path: the database file; created if it does not exist.
        queue_max: how many jobs may wait; more are refused with OVERLOADED.
        queue_max_bytes: how many bytes of messages may wait; the same.
        announce: called in the writer's thread after each commit that changed a message.
        lifetimes: tells what has expired.

    Raises:
        LogVersionError: the file has another schema.
        LogUnusableError: the file is no log, is damaged, or cannot be written.
    """

    def __init__(
        self,
        path: Path,
        *,
        queue_max: int,
        queue_max_bytes: int,
        announce: Callable[[], None],
        lifetimes: RetentionPolicy | None = None,
    ) -> None:
        super().__init__(queue_max, queue_max_bytes)
        self._connection = open_for_writing(path)
        self._state = state_of(self._connection)
        self._lifetimes = lifetimes or RetentionPolicy()
        self._announce = announce
        self._thread = ThreadPoolExecutor(1, "log-writer")

    async def between_commits(self, job: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Do something with the connection while no commit is under way. Writes wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, self._connection)

    def close(self) -> None:
        """Finish what is queued, then close the file."""
        self._thread.shutdown()
        self._connection.close()

    def _wake(self, _partition: int) -> None:
        self._thread.submit(self._commit_queued)

    def _commit_queued(self) -> None:
        """Commit the queued jobs. Each job submits one call of this; most find their job done already."""
        group = [job for job in self._queue.take(_GROUP_MAX) if job.done.set_running_or_notify_cancel()]
        if not group:
            return
        before = self._state.sequence
        try:
            self._commit_together(group)
        finally:
            if self._state.sequence != before:
                self._announce()

    def _commit_together(self, group: Sequence[AnyJob]) -> None:
        """Commit jobs at once; where that fails, each of them alone: one that cannot be written spoils no other."""
        with ExitStack() as one_by_one:
            for job in reversed(group):
                one_by_one.callback(self._commit_alone, job)
            self._commit(group)
            one_by_one.pop_all()
        for job in group:
            job.settle()

    def _commit_alone(self, job: AnyJob) -> None:
        failure: BaseException | None = None
        try:
            self._commit([job])
        except sqlite3.Error as error:
            failure = _storage_fault(error)
        except BaseException as error:
            failure = error
            raise
        finally:
            job.settle(failure)

    def _commit(self, group: Sequence[AnyJob]) -> None:
        state = self._state
        with locked(self._connection):
            for jobs in groups(group):
                step = Step(self._connection, state, self._lifetimes)
                step.plan([job for job in jobs if isinstance(job, PlannedJob)])
                for job in jobs:
                    if isinstance(job, StatementJob):
                        job.answer = job.work(step)
                state = step.flush()
        self._state = state


def _storage_fault(error: sqlite3.Error) -> Fault:
    cause = getattr(error, "sqlite_errorname", type(error).__name__)
    return Fault(
        Reason.ERROR_REASON_STORAGE_UNAVAILABLE,
        "the message log cannot be written",
        metadata={"cause": cause},
        retry_after_s=1.0,
    )
