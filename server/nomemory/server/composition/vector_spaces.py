"""Builds vector spaces in the process that fills their indexes, and starts their work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from nomemory.server.composition.commit_signal import CommitSignal
from nomemory.server.composition.log_store import LogStore
from nomemory.server.composition.traced_parts import traced_vectors
from nomemory.server.data_directory import DataDirectory
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.metrics.roster import Roster
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.processes.watch import Patience, Vigil
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import QDRANT, VECTOR_ENGINE, VECTOR_INDEX, StandingFaults
from nomemory.server.vector.collection import name_of
from nomemory.server.vector.edge.growth import Growth
from nomemory.server.vector.edge.shards import EdgeShards
from nomemory.server.vector.factory import choose_vector_index
from nomemory.server.vector.indexing.indexer import VectorIndexer
from nomemory.server.vector.model_change import IndexedSpace
from nomemory.server.vector.protocol import VectorIndex
from nomemory.server.vector.qdrant.reachability import Reachability
from nomemory.server.vector.remembered_model import RememberedModel, write_remembered
from nomemory.server.vector.space import SharedVectors, VectorSpace

VECTOR_JOB = "vector-indexer"
"""What an indexer's work is called in its supervisor."""


def _never() -> float:
    return 0.0


class VectorSpaces:
    """Builds spaces over one log.

    Args:
        directory: where the collections are.
        store: opens the log's feed.
        committed: tells the indexers that the log has changed.
        roster: lists the processes of indexes.
        log_id: which log it is.
    """

    def __init__(
        self, directory: DataDirectory, store: LogStore, committed: CommitSignal, roster: Roster, log_id: str
    ) -> None:
        self._log_id = log_id
        self._roster = roster
        self._directory = directory
        self._store = store
        self._committed = committed

    def build(
        self, settings: Settings, embedder: Embedder, faults: StandingFaults, failing_s: Callable[[], float] = _never
    ) -> IndexedSpace:
        """Build a space.

        Args:
            settings: those that its model is made from.
            embedder: its model; closed with the space.
            faults: where is noted what is wrong with it.
            failing_s: returns how long its model has failed.
        """
        stack, supervisor = AsyncExitStack(), Supervisor()
        stack.push_async_callback(embedder.close)
        index = self._index(settings, embedder, faults, stack)
        indexer = self._indexer(settings, embedder, faults, index, stack)
        if isinstance(index, EdgeShards):
            _grow(Growth(index, settings.vector.shard_points), supervisor, stack)
        else:
            _probe(Reachability(index, settings.vector.probe_s, faults), supervisor, stack)
        task = supervisor.start_task(VECTOR_JOB, indexer.run)
        stack.push_async_callback(asyncio.wait, [task])
        stack.callback(indexer.stop)
        stack.callback(supervisor.stop)
        return IndexedSpace(
            _space(settings, embedder, index, indexer),
            index,
            indexer,
            partial(supervisor.fault, VECTOR_JOB),
            tuple(map(faults.name_of, (VECTOR_ENGINE, VECTOR_INDEX, QDRANT))),
            failing_s,
            partial(write_remembered, self._directory.model, RememberedModel.of(settings, indexer.collection)),
            stack.aclose,
        )

    def _index(
        self, settings: Settings, embedder: Embedder, faults: StandingFaults, stack: AsyncExitStack
    ) -> VectorIndex:
        vigil = Vigil(Patience.of(settings), faults, self._roster)
        index = choose_vector_index(settings, self._directory.vectors, embedder, vigil, log_id=self._log_id)
        stack.push_async_callback(index.close)
        return index

    def _indexer(
        self,
        settings: Settings,
        embedder: Embedder,
        faults: StandingFaults,
        index: VectorIndex,
        stack: AsyncExitStack,
    ) -> VectorIndexer:
        vectors, changed = self._directory.vectors, self._committed.follow()
        stack.callback(self._committed.unfollow, changed)
        shared = self._store.shared_index(name_of(settings, vectors, embedder))
        if shared is not None:
            stack.push_async_callback(shared.close)
        feed = self._store.feed()
        indexer = VectorIndexer(feed, index, embedder, vectors, settings, changed, faults, shared)
        stack.callback(indexer.close)
        return indexer


def _space(settings: Settings, embedder: Embedder, index: VectorIndex, indexer: VectorIndexer) -> VectorSpace:
    searched = traced_vectors(index, settings)
    shared = SharedVectors(searched, settings.reads.vectors_max)
    return VectorSpace(indexer.collection, embedder, shared, searched, indexer)


def _grow(growth: Growth, supervisor: Supervisor, stack: AsyncExitStack) -> None:
    task = supervisor.start_task("vector-growth", growth.run)
    stack.push_async_callback(asyncio.wait, [task])
    stack.callback(task.cancel)


def _probe(reachability: Reachability, supervisor: Supervisor, stack: AsyncExitStack) -> None:
    task = supervisor.start_task("vector-probe", reachability.run)
    stack.push_async_callback(asyncio.wait, [task])
    stack.callback(reachability.stop)
