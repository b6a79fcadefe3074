"""Write the message log to SQLite in one thread, and commit several queued jobs together."""

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
from nomemory.server.store.sqlite.schema import open_writable_log, read_bucket_state, write_transaction
from nomemory.server.store.sqlite.transaction import TransactionStep
from nomemory.server.store.write_queue import AnyJob, PlannedJob, QueuedLogWriter, StatementJob, group_jobs

Result = TypeVar("Result")

_GROUP_MAX = 64
"""Maximum number of jobs in one commit: a compromise between throughput and latency."""


class SqliteLogWriter(QueuedLogWriter):
    """The writer of a SQLite message log, which must have only one writer.

    Args:
        path: the database file, which is created if it does not exist.
        queue_max: maximum number of queued jobs; further jobs are rejected with OVERLOADED.
        queue_max_bytes: maximum size of the queued messages; further jobs are rejected with OVERLOADED.
        announce: called in the writer's thread after each commit that changed messages.

    Raises:
        LogVersionError: the schema is not supported.
        LogUnusableError: the file is not a message log, is damaged, or cannot be written.
    """

    def __init__(
        self,
        path: Path,
        *,
        queue_max: int,
        queue_max_bytes: int,
        announce: Callable[[], None],
        retention: RetentionPolicy | None = None,
    ) -> None:
        super().__init__(queue_max, queue_max_bytes)
        self._connection = open_writable_log(path)
        self._state = read_bucket_state(self._connection)
        self._retention = retention or RetentionPolicy()
        self._announce = announce
        self._thread = ThreadPoolExecutor(1, "log-writer")

    async def run_between_commits(self, job: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run a function with the writer's connection between two commits, while writes wait."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, self._connection)

    def close(self) -> None:
        """Commit the queued jobs, then close the database file."""
        self._thread.shutdown()
        self._connection.close()

    def _wake(self, _partition: int) -> None:
        self._thread.submit(self._commit_queued)

    def _commit_queued(self) -> None:
        """Commit queued jobs.

        The method is called once for each job, and does nothing if an earlier call has committed the job.
        """
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
        """Commit jobs together; if the commit fails, commit each job alone, so that only faulty jobs fail."""
        with ExitStack() as one_by_one:
            for job in reversed(group):
                one_by_one.callback(self._commit_alone, job)
            self._commit_group(group)
            one_by_one.pop_all()
        for job in group:
            job.resolve()

    def _commit_alone(self, job: AnyJob) -> None:
        failure: BaseException | None = None
        try:
            self._commit_group([job])
        except sqlite3.Error as error:
            failure = _make_storage_fault(error)
        except BaseException as error:
            failure = error
            raise
        finally:
            job.resolve(failure)

    def _commit_group(self, group: Sequence[AnyJob]) -> None:
        state = self._state
        with write_transaction(self._connection):
            for jobs in group_jobs(group):
                step = TransactionStep(self._connection, state, self._retention)
                step.plan_jobs([job for job in jobs if isinstance(job, PlannedJob)])
                for job in jobs:
                    if isinstance(job, StatementJob):
                        job.result = job.work(step)
                state = step.write_planned_rows()
        self._state = state


def _make_storage_fault(error: sqlite3.Error) -> Fault:
    cause = getattr(error, "sqlite_errorname", type(error).__name__)
    return Fault(
        Reason.ERROR_REASON_STORAGE_UNAVAILABLE,
        "the message log cannot be written",
        metadata={"cause": cause},
        retry_after_s=1.0,
    )
