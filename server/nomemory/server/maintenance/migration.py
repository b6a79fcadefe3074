"""Moves a log to another engine: copies it beside a server that writes, and switches when nobody does.

The log stays what it is: its name, its epoch, every sequence, every id. So write tokens, cursors and the indexes that
have followed it stay good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from nomemory.server.log.expiry import Lifetimes
from nomemory.server.log.move import LogCopy, LogTables
from nomemory.server.log.position import FeedPosition, LogPosition
from nomemory.server.log.protocol import LogReader
from nomemory.server.maintenance.catch_up import CatchUp, Damaged, Pass
from nomemory.server.maintenance.sameness import Comparison, Sameness
from nomemory.server.vector.shared.protocol import Filled

_PASSES_MAX: Final = 10
_FEW: Final = 200
"""A pass that had no more to do than this came as near as one can beside a server that writes."""


ALREADY: Final = "the log was moved from there already, and is not moved again"


class MigrationError(Exception):
    """A log cannot be moved from here to there; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """What is no row of a log.

    Attributes:
        position: which log it is, and the sequence of its latest change.
        last_id: the number of the last id that it made; 0: it made none.
        reached: the sequence of the latest change of each bucket.
        shared: what it knows of indexes that several servers fill.
    """

    position: LogPosition
    last_id: int
    reached: FeedPosition
    shared: Mapping[str, Filled]


class Source(Protocol):
    """A log that is to be moved."""

    @property
    def tables(self) -> LogTables:
        """Its rows."""

    @property
    def was_moved(self) -> bool:
        """Whether it was switched off before, for a copy that was not finished."""

    def reader(self, lifetimes: Lifetimes) -> LogReader:
        """Open it as a server reads it."""

    def refuse_running(self) -> None:
        """Look whether its server runs, where that can be seen.

        Raises:
            DataDirectoryBusyError: it does.
        """

    def still(self) -> AbstractAsyncContextManager[None]:
        """Keep everybody from writing to it.

        Raises:
            DataDirectoryBusyError: its server runs.
        """

    async def handed_over(self) -> HandOver:
        """Return what the target has to know. It is still."""

    async def mark_moved(self) -> None:
        """Have no server serve it any more. It is still."""


class Target(Protocol):
    """Where a log is moved to."""

    @property
    def copy(self) -> LogCopy:
        """The rows of the copy."""

    def reader(self, lifetimes: Lifetimes) -> LogReader:
        """Open the copy as a server reads it."""

    def refuse_running(self) -> None:
        """Look whether a server runs where the log is to be, where that can be seen.

        Raises:
            DataDirectoryBusyError: it does.
        """

    async def tidy(self) -> None:
        """Do what is best done when most has been copied."""

    async def finish(self, given: HandOver) -> None:
        """Make the copy a log that a server may serve.

        Raises:
            DataDirectoryBusyError: a server runs there.
        """


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did.

    Attributes:
        copied: messages that came in this run.
        gone: messages that went in this run, because they went from the log.
        position: the log's before the last pass: all up to there is in the copy.
        behind: by how many changes the log is further by now.
        damaged: messages that were left out, because their checksums do not hold.
        sameness: what was compared in the end; None: nothing, because the log may still change.
    """

    copied: int
    gone: int
    position: LogPosition
    behind: int
    damaged: tuple[Damaged, ...]
    sameness: Sameness | None = None

    @property
    def is_sound(self) -> bool:
        """Whether the copy is all that the log is, as far as was looked."""
        return not self.damaged and not (self.sameness and self.sameness.differences)


class Migration:
    """Moves a log.

    Args:
        source: from where.
        target: to where.
        tell: called after each commit with what the pass has done so far.
    """

    def __init__(self, source: Source, target: Target, tell: Callable[[Pass], None]) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._copied = 0
        self._gone = 0

    async def copy(self) -> Outcome:
        """Copy what there is, and what was written meanwhile, until little is left."""
        for _ in range(_PASSES_MAX):
            position = await self._source.tables.position()
            done = await self._pass()
            await self._target.tidy()
            if done.changes <= _FEW:
                break
        now = await self._source.tables.position()
        return self._outcome(position, done, behind=now.sequence - position.sequence)

    async def switch(self) -> Outcome:
        """Copy, keep everybody from writing, copy the rest, compare, and hand over. With differences nothing changes.

        Raises:
            DataDirectoryBusyError: a server runs, and would not know of it.
        """
        self._source.refuse_running()
        self._target.refuse_running()
        await self.copy()
        async with self._source.still():
            outcome = await self._last_pass()
            given = await self._source.handed_over()
            if outcome.is_sound and not self._source.was_moved:
                await self._source.mark_moved()
        if outcome.is_sound:
            await self._target.finish(given)
        return outcome

    async def _last_pass(self) -> Outcome:
        position = await self._source.tables.position()
        done = await self._pass()
        if done.damaged:
            return self._outcome(position, done)
        return self._outcome(position, done, sameness=await self._compared(position.sequence))

    async def _pass(self) -> Pass:
        done = await CatchUp(self._source.tables, self._target.copy, self._tell).run()
        self._copied += done.messages
        self._gone += done.gone
        return done

    async def _compared(self, sequence: int) -> Sameness:
        now_us = Lifetimes().now_us()
        lifetimes = Lifetimes(now_us=lambda: now_us)  # what expires meanwhile must not make a difference
        readers = self._source.reader(lifetimes), self._target.reader(lifetimes)
        try:
            return await Comparison(self._source.tables, self._target.copy, readers).run(sequence)
        finally:
            for reader in readers:
                await reader.close()

    def _outcome(
        self, position: LogPosition, done: Pass, *, behind: int = 0, sameness: Sameness | None = None
    ) -> Outcome:
        return Outcome(self._copied, self._gone, position, behind, tuple(done.damaged), sameness)
