"""The lexical indexer in a process of its own: analysing texts would hold the interpreter's lock, and reads wait.

What the lexical indexer's process can be asked, and how it can fail.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from nomemory.server.lexical.protocol import IndexUnusableError
from nomemory.server.lexical.tantivy.schema import EnginePanicError
from nomemory.server.log.feed import ChangeFeed
from nomemory.server.processes.child_process import ChildProcess
from nomemory.server.processes.connection import CallFailedError, PipeClosedError, PipeConnection
from nomemory.server.processes.launch import Launch
from nomemory.server.processes.watch import Vigil
from nomemory.server.standing_faults import LEXICAL_INDEXER


@dataclass(frozen=True, slots=True)
class Follow:
    """Begin to follow the log. The first call, and no answer. It may hold a password, which is why it is a call.

    Attributes:
        open_feed: opens the log's feed.
    """

    open_feed: Callable[[], ChangeFeed]


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read the log's changes now. No answer."""


@dataclass(frozen=True, slots=True)
class AwaitCommit:
    """Wait until the index has committed more. Answer: the sequence up to which everything is committed.

    Attributes:
        known: the latest answer; None if there is none from this process.
    """

    known: int | None


@dataclass(frozen=True, slots=True)
class WipeRemoved:
    """Take everything out of the index's files that was removed and committed by now. Answer: None, when it is done."""


IndexerCall = Follow | ReadLog | AwaitCommit | WipeRemoved
EXPECTED_FAILURES: Final = (IndexUnusableError, EnginePanicError, OSError, ValueError, sqlite3.Error)
"""What the log or the engine raises. Any other error ends the process."""


FAILURES_BY_NAME: Final[Mapping[str, type[Exception]]] = MappingProxyType(
    {kind.__name__: kind for kind in EXPECTED_FAILURES}
)
"""An error crosses the pipe as the name of its kind: its own words may quote a message."""


def failure_name(error: BaseException) -> str:
    """Return the name under which one of the expected failures crosses the pipe."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind in EXPECTED_FAILURES)


_MODULE = "nomemory.server.lexical.tantivy.indexer_worker"


class IndexerLostError(Exception):
    """The indexer's process ended and did not say why."""


class LexicalIndexerProcess:
    """Runs a LexicalIndexer elsewhere. All methods belong to the event loop.

    The process lives as long as its pipe, so it does not outlive this one. It may die at any time: `run` raises then,
    and when it is called again, another process goes on after the last commit.

    Args:
        open_feed: opens the log's feed; it is sent to the process.
        directory: where the index lives.
        heap_bytes: memory of the index's writer.
        batch_max: most changes in one commit.
        batch_bytes: size of messages that is enough for one commit.
        wipe_max: most messages that are moved at once while removed ones are wiped out.
        wake: set after each commit to the log.
        vigil: how the process is watched.
    """

    def __init__(
        self,
        open_feed: Callable[[], ChangeFeed],
        directory: Path,
        *,
        heap_bytes: int,
        batch_max: int,
        batch_bytes: int,
        wipe_max: int,
        wake: asyncio.Event,
        vigil: Vigil | None = None,
    ) -> None:
        self._vigil = vigil or Vigil()
        arguments = (str(directory), str(heap_bytes), str(batch_max), str(batch_bytes), str(wipe_max))
        self._launch = Launch(_MODULE, arguments, logs=True)
        self._open_feed = open_feed
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
        self._child = child = await ChildProcess.start(self._launch, LEXICAL_INDEXER, self._vigil)
        child.pipe.notify(Follow(self._open_feed))
        waking = asyncio.create_task(self._pass_on_wakes(child.pipe))
        try:
            await self._follow(child.pipe)
        except (PipeClosedError, CallFailedError) as error:
            if not self._is_stopping:
                raise _failure(error) from None
        finally:
            waking.cancel()
            await child.close()

    async def wipe_removed(self) -> None:
        """Have everything taken out of the index's files that was removed and applied by now.

        Raises:
            IndexerLostError: the process ended, or there is none. What it did stays done.
        """
        try:
            if self._child is None:
                raise IndexerLostError
            await self._child.pipe.call(WipeRemoved())
        except (PipeClosedError, CallFailedError) as error:
            raise IndexerLostError from error

    def stop(self) -> None:
        """End `run` after the change in the process's hands, with a commit. It cannot be started again."""
        self._is_stopping = True
        if self._child is not None:
            self._child.pipe.close()

    async def _follow(self, pipe: PipeConnection) -> None:
        known = None
        while not self._is_stopping:
            known = self._applied = await pipe.call(AwaitCommit(known))

    async def _pass_on_wakes(self, pipe: PipeConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            pipe.notify(ReadLog())


def _failure(error: PipeClosedError | CallFailedError) -> Exception:
    if isinstance(error, PipeClosedError):
        return IndexerLostError()
    return FAILURES_BY_NAME[str(error)]()
