"""Run the lexical indexer in a child process, because text analysis would hold the GIL and delay reads."""

from __future__ import annotations

import asyncio

from nomemory.server.indexing.lexical.messages import FAILURES_BY_NAME, EraseDeleted, FollowLog, ReadLog
from nomemory.server.runtime.active_faults import LEXICAL_INDEXER
from nomemory.server.runtime.processes.child_process import ChildProcess
from nomemory.server.runtime.processes.ipc_connection import CallFailedError, PipeClosedError, PipeConnection
from nomemory.server.runtime.processes.spawn import ProcessLaunch
from nomemory.server.runtime.processes.watchdog import WatchPolicy

_MODULE = "nomemory.server.indexing.lexical.worker"


class IndexerLostError(Exception):
    """The process of the lexical indexer ended unexpectedly."""


class LexicalIndexerProcess:
    """Runs a `LexicalIndexer` in a child process. All methods must be called from the event loop.

    The child ends when its pipe is closed. If the child dies, `run` raises; when `run` is called again, a new process
    resumes after the last commit.

    Args:
        wake: the event that is set after each commit to the message log.
    """

    def __init__(self, work: FollowLog, wake: asyncio.Event, policy: WatchPolicy | None = None) -> None:
        self._policy = policy or WatchPolicy()
        self._launch = ProcessLaunch(_MODULE, (), logs=True)
        self._work = work
        self._wake = wake
        self._is_stopping = False
        self._applied = 0
        self._child: ChildProcess | None = None

    @property
    def applied_sequence(self) -> int:
        """The sequence number up to which all changes are committed; 0 until the process has opened the index."""
        return self._applied

    @property
    def process_id(self) -> int | None:
        """The id of the latest indexer process; None before the first start."""
        return self._child.process_id if self._child else None

    async def run(self) -> None:
        """Run the indexer until `stop` is called. Errors in the child process are raised in the caller.

        Raises:
            WorkerUnavailableError: the indexer process cannot be started.
            IndexerLostError: the indexer process ended unexpectedly.
        """
        self._child = child = await ChildProcess.start(
            self._launch, LEXICAL_INDEXER, self._policy, self._record_applied
        )
        waking = asyncio.create_task(self._forward_wakes(child.pipe))
        try:
            if not self._is_stopping:  # `stop` may have been called meanwhile
                await child.pipe.call(self._work)
        except (PipeClosedError, CallFailedError) as error:
            if not self._is_stopping:
                raise _to_exception(error) from None
        finally:
            waking.cancel()
            await child.close()

    async def erase_deleted(self) -> None:
        """Erase deleted messages from the index files.

        Raises:
            IndexerLostError: the indexer process ended or was not started; completed batches remain erased.
        """
        try:
            if self._child is None:
                raise IndexerLostError
            await self._child.pipe.call(EraseDeleted())
        except (PipeClosedError, CallFailedError) as error:
            raise IndexerLostError from error

    def stop(self) -> None:
        """Commit the current batch and end `run`. A stopped indexer cannot be restarted."""
        self._is_stopping = True
        if self._child is not None:
            self._child.pipe.close()

    def _record_applied(self, applied: int) -> None:
        self._applied = applied

    async def _forward_wakes(self, pipe: PipeConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            pipe.notify(ReadLog())


def _to_exception(error: PipeClosedError | CallFailedError) -> Exception:
    if isinstance(error, PipeClosedError):
        return IndexerLostError()
    return FAILURES_BY_NAME[str(error)]()
