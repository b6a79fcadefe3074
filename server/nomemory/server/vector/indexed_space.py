"""The vector spaces of the process that fills their indexes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nomemory.server.faults import Fault
from nomemory.server.processes.supervisor import JobFault
from nomemory.server.vector.foreign_collection import ForeignCollectionError
from nomemory.server.vector.indexer import VectorIndexer
from nomemory.server.vector.protocol import VectorIndex
from nomemory.server.vector.space import VectorSpace


@dataclass(frozen=True, slots=True)
class IndexedSpace:
    """A space, and what fills its index.

    Attributes:
        space: what reads see of it.
        index: the engine.
        indexer: its background work.
        job_fault: returns the error that this work failed with lately; None if it is healthy.
        parts: what its parts are called in faults.
        failing_s: returns for how long queries have failed with its model, in seconds.
        remember: writes down that this is what serves, for the next start.
        close: ends its work and closes it.
    """

    space: VectorSpace
    index: VectorIndex
    indexer: VectorIndexer
    job_fault: Callable[[], JobFault | None]
    parts: tuple[str, ...]
    failing_s: Callable[[], float]
    remember: Callable[[], None]
    close: Callable[[], Awaitable[None]]


class SpacesInUse:
    """Those that follow the log.

    Args:
        serving: what answers reads.
        coming: what takes its place when its index has everything.
        notice: what happened to the index that serves when the server started, in words.
        change_notice: what there is to say about a change of the model, until it is over.

    Attributes:
        former: what has been replaced, until it is closed.
    """

    def __init__(
        self, serving: IndexedSpace, coming: IndexedSpace | None, notice: str, change_notice: str = ""
    ) -> None:
        self.serving = serving
        self.coming = coming
        self.former: IndexedSpace | None = None
        self._notice = notice
        self.change_notice = change_notice

    @property
    def notice(self) -> str:
        """What there is to say about the index that serves, in words."""
        return self.change_notice or self._notice

    def all(self) -> list[IndexedSpace]:
        """Return them all."""
        return [one for one in (self.serving, self.coming, self.former) if one is not None]

    async def refuse_foreign(self) -> None:
        """Look whether an index is filled from another log, as far as the engines answer.

        Raises:
            ForeignCollectionError: one is.
        """
        for one in self.all():
            try:
                await one.index.probe()
            except ForeignCollectionError:
                raise
            except Fault:
                continue  # it is away: who needs it later is told so

    def advance(self, coming: IndexedSpace, notice: str) -> None:
        """Have the coming one serve."""
        self.serving, self.coming, self.former = coming, None, self.serving
        self._notice, self.change_notice = "", notice
