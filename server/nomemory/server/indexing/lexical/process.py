"""The lexical indexer in a process of its own: analysing texts would hold the interpreter's lock, and reads wait."""

from __future__ import annotations

import asyncio

from nomemory.server.indexing.lexical.messages import FAILURES_BY_NAME, EraseDeleted, FollowLog, ReadLog
from nomemory.server.runtime.active_faults import LEXICAL_INDEXER
from nomemory.server.runtime.processes.child_process import ChildProcess
from nomemory.server.runtime.processes.ipc_connection import CallFailedError, PipeClosedError, PipeConnection
from nomemory.server.runtime.processes.spawn import Launch
from nomemory.server.runtime.processes.watchdog import WatchPolicy

_MODULE = "nomemory.server.indexing.lexical.worker"


class IndexerLostError(Exception):
    """The indexer's process ended and did not say why."""


class LexicalIndexerProcess:
    """Runs a LexicalIndexer elsewhere. All methods belong to the event loop.

    The process lives as long as its pipe, so it does not outlive this one. It may die at any time: `run` raises then,
    and when it is called again, another process goes on after the last commit.

    Args:
        work: what to follow, and in which pieces; it is sent to the process.
        wake: set after each commit to the log.
        policy: how the process is watched.
    """

    def __init__(self, work: FollowLog, wake: asyncio.Event, policy: WatchPolicy | None = None) -> None:
        self._policy = policy or WatchPolicy()
        self._launch = Launch(_MODULE, (), logs=True)
        self._work = work
        self._wake = wake
        self._is_stopping = False
        self._applied = 0
        self._child: ChildProcess | None = None

    @property
    def applied(self) -> int:
        """The sequence up to which everything is committed. 0 until the process has opened the index."""
        return self._applied

    @property
    def process_id(self) -> int | None:
        """The process that was started last."""
        return self._child.process_id if self._child else None

    async def run(self) -> None:
        """Have the log followed until `stop`. Raise what the indexer raised, or IndexerLostError.

        Raises:
            WorkerUnavailableError: the process cannot be started.
        """
        self._child = child = await ChildProcess.start(self._launch, LEXICAL_INDEXER, self._policy, self._note)
        waking = asyncio.create_task(self._pass_on_wakes(child.pipe))
        try:
            if not self._is_stopping:  # as it may be since the process was started
                await child.pipe.call(self._work)
        except (PipeClosedError, CallFailedError) as error:
            if not self._is_stopping:
                raise _failure(error) from None
        finally:
            waking.cancel()
            await child.close()

    async def erase_deleted(self) -> None:
        """Have everything taken out of the index's files that was removed and applied by now.

        Raises:
            IndexerLostError: the process ended, or there is none. What it did stays done.
        """
        try:
            if self._child is None:
                raise IndexerLostError
            await self._child.pipe.call(EraseDeleted())
        except (PipeClosedError, CallFailedError) as error:
            raise IndexerLostError from error

    def stop(self) -> None:
        """End `run` after the change in the process's hands, with a commit. It cannot be started again."""
        self._is_stopping = True
        if self._child is not None:
            self._child.pipe.close()

    def _note(self, applied: int) -> None:
        self._applied = applied

    async def _pass_on_wakes(self, pipe: PipeConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            pipe.notify(ReadLog())


def _failure(error: PipeClosedError | CallFailedError) -> Exception:
    if isinstance(error, PipeClosedError):
        return IndexerLostError()
    return FAILURES_BY_NAME[str(error)]()
