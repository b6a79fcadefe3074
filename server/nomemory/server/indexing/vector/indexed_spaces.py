"""The vector spaces of a server: the active one and, during a model migration, the next and the previous one."""

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
    """A vector space (an embedding model and its collection) with its index and indexing job.

    Attributes:
        space: the interface of the vector space for reads.
        job_fault: returns the recent error of the indexing job, or None if the job is healthy.
        components: the component names under which faults of the space are reported.
        failing_s: returns the time, in seconds, for which the embedding of queries has been failing.
        record: records the space on disk as the active one for the next start.
        close: stops the indexing job and closes the index.
    """

    space: VectorSpace
    index: VectorIndex
    indexer: VectorIndexer
    job_fault: Callable[[], JobFault | None]
    components: tuple[str, ...]
    failing_s: Callable[[], float]
    record: Callable[[], None]
    close: Callable[[], Awaitable[None]]


class IndexedSpaces:
    """The vector spaces whose indexes a server keeps up to date.

    Args:
        active: the space that serves reads.
        next_: the space that replaces the active one when its index is complete; None without a migration.
        notice: a message for the operator about the active index.
        migration_notice: a message for the operator about the migration, until it is over.

    Attributes:
        previous: the previous active space, until it is closed.
    """

    def __init__(
        self, active: IndexedSpace, next_: IndexedSpace | None, notice: str, migration_notice: str = ""
    ) -> None:
        self.active = active
        self.next = next_
        self.previous: IndexedSpace | None = None
        self._notice = notice
        self.migration_notice = migration_notice

    @property
    def notice(self) -> str:
        """The message for the operator about the migration or the active index; empty if there is none."""
        return self.migration_notice or self._notice

    def list_spaces(self) -> list[IndexedSpace]:
        """Return the active space, then the next and the previous ones if they exist."""
        return [space for space in (self.active, self.next, self.previous) if space is not None]

    async def check_collection_owner(self) -> None:
        """Raise an error if an index belongs to another message log. Skip an index whose engine is unavailable.

        Raises:
            ForeignCollectionError: a collection belongs to another message log.
        """
        for space in self.list_spaces():
            try:
                await space.index.probe()
            except ForeignCollectionError:
                raise
            except Fault:
                continue  # the engine is unavailable: later reads fail

    def activate(self, space: IndexedSpace, notice: str) -> None:
        """Make the next vector space the active one."""
        self.active, self.next, self.previous = space, None, self.active
        self._notice, self.migration_notice = "", notice
