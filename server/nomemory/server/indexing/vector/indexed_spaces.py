"""The vector spaces that follow the message log: the active one and, during a migration of the model, others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.indexer import VectorIndexer
from nomemory.server.runtime.processes.supervisor import JobFault
from nomemory.server.search.semantic.protocol import VectorIndex
from nomemory.server.search.semantic.qdrant.reachability import ForeignCollectionError
from nomemory.server.search.semantic.vector_space import VectorSpace


@dataclass(frozen=True, slots=True)
class IndexedSpace:
    """A vector space with the index and the job that fills it.

    Attributes:
        space: the space as reads see it.
        index: the engine.
        indexer: fills the index.
        job_fault: returns the error with which that job failed lately; None if it is healthy.
        parts: the names of its parts in faults.
        failing_s: returns for how many seconds queries have failed with its model.
        record: records on disk that this space is active, for the next start.
        close: ends the job and closes everything.
    """

    space: VectorSpace
    index: VectorIndex
    indexer: VectorIndexer
    job_fault: Callable[[], JobFault | None]
    parts: tuple[str, ...]
    failing_s: Callable[[], float]
    record: Callable[[], None]
    close: Callable[[], Awaitable[None]]


class IndexedSpaces:
    """All spaces of a server.

    Args:
        active: answers reads.
        next_: replaces the active one when its index is complete; None without a migration.
        notice: what happened to the active index when the server started, for the operator.
        migration_notice: what the operator should know about the migration, until it is over.

    Attributes:
        former: the space that was replaced, until it is closed.
    """

    def __init__(
        self, active: IndexedSpace, next_: IndexedSpace | None, notice: str, migration_notice: str = ""
    ) -> None:
        self.active = active
        self.next = next_
        self.former: IndexedSpace | None = None
        self._notice = notice
        self.migration_notice = migration_notice

    @property
    def notice(self) -> str:
        """What the operator should know about the active index."""
        return self.migration_notice or self._notice

    def all(self) -> list[IndexedSpace]:
        """Return all spaces."""
        return [space for space in (self.active, self.next, self.former) if space is not None]

    async def check_collection_owner(self) -> None:
        """Check that no index is filled from another message log, as far as the engines answer.

        Raises:
            ForeignCollectionError: one is.
        """
        for space in self.all():
            try:
                await space.index.probe()
            except ForeignCollectionError:
                raise
            except Fault:
                continue  # the engine is unavailable: reads that need it fail later

    def promote(self, space: IndexedSpace, notice: str) -> None:
        """Make the next space the active one."""
        self.active, self.next, self.former = space, None, self.active
        self._notice, self.migration_notice = "", notice
