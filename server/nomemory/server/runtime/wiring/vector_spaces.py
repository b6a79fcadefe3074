"""Construction of vector indexes with their embedders and indexers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.indexing.vector.indexed_spaces import IndexedSpace
from nomemory.server.indexing.vector.indexer import VectorIndexer
from nomemory.server.indexing.vector.model_record import ModelRecord, write_model_record
from nomemory.server.runtime.active_faults import QDRANT, VECTOR_ENGINE, VECTOR_INDEX, ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.metrics.process_registry import ProcessRegistry
from nomemory.server.runtime.processes.supervisor import Supervisor
from nomemory.server.runtime.processes.watchdog import build_watch_policy
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.tracing.traced import trace_vector_index
from nomemory.server.runtime.wiring.commit_signal import CommitSignal
from nomemory.server.runtime.wiring.log_store import LogStore
from nomemory.server.search.semantic.collection import (
    build_qdrant_collection_name,
)
from nomemory.server.search.semantic.factory import create_vector_index
from nomemory.server.search.semantic.limited_search import LimitedVectorSearch
from nomemory.server.search.semantic.protocol import VectorIndex
from nomemory.server.search.semantic.qdrant.reachability import ReachabilityMonitor
from nomemory.server.search.semantic.vector_space import VectorSpace, query_limit

_PROBE_INTERVAL_S: Final = 5.0
"""Interval of the health check of a Qdrant server, in seconds."""

VECTOR_JOB = "vector-indexer"
"""The job name of the vector indexer."""


def _report_no_query_failure() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class VectorSpaces:
    """Opens the vector indexes of a message log, each with its embedder and its indexer.

    Attributes:
        directory: the data directory with the vector collections.
        committed: notifies the indexers of commits to the message log.
        processes: records the starts and exits of worker processes.
    """

    directory: DataDirectory
    store: LogStore
    committed: CommitSignal
    processes: ProcessRegistry
    log_id: str

    def build(
        self,
        settings: Settings,
        embedder: Embedder,
        faults: ActiveFaults,
        failing_s: Callable[[], float] = _report_no_query_failure,
    ) -> IndexedSpace:
        """Open the vector index of a model and start its indexer.

        Args:
            settings: the settings that configure the model.
            embedder: the embedder of the model, which is closed together with the index.
            faults: receives the faults of the index.
            failing_s: returns for how long the model has been failing, in seconds.
        """
        stack, supervisor = AsyncExitStack(), Supervisor()
        stack.push_async_callback(embedder.close)
        index = self._create_index(settings, embedder, faults, stack)
        indexer = self._create_indexer(settings, embedder, faults, index, stack)
        if settings.vector.qdrant_url is not None:
            supervisor.supervise(stack, "vector-probe", ReachabilityMonitor(index, _PROBE_INTERVAL_S, faults).run)
        supervisor.supervise(stack, VECTOR_JOB, indexer.run, indexer.stop)
        return IndexedSpace(
            _create_space(settings, embedder, index, indexer),
            index,
            indexer,
            partial(supervisor.fault, VECTOR_JOB),
            tuple(map(faults.build_qualified_name, (VECTOR_ENGINE, VECTOR_INDEX, QDRANT))),
            failing_s,
            partial(
                write_model_record, self.directory.model_record, ModelRecord.from_settings(settings, indexer.collection)
            ),
            stack.aclose,
        )

    def _create_index(
        self, settings: Settings, embedder: Embedder, faults: ActiveFaults, stack: AsyncExitStack
    ) -> VectorIndex:
        policy = build_watch_policy(settings.processes, faults, self.processes)
        index = create_vector_index(settings, self.directory.vector_collections, embedder, policy, log_id=self.log_id)
        stack.push_async_callback(index.close)
        return index

    def _create_indexer(
        self,
        settings: Settings,
        embedder: Embedder,
        faults: ActiveFaults,
        index: VectorIndex,
        stack: AsyncExitStack,
    ) -> VectorIndexer:
        vectors, changed = self.directory.vector_collections, self.committed.subscribe()
        stack.callback(self.committed.unsubscribe, changed)
        shared = self.store.create_shared_index(build_qdrant_collection_name(settings, vectors, embedder))
        if shared is not None:
            stack.push_async_callback(shared.close)
        feed = self.store.make_feed_opener()
        indexer = VectorIndexer(feed, index, embedder, vectors, settings, changed, faults, shared)
        stack.callback(indexer.close)
        return indexer


def _create_space(settings: Settings, embedder: Embedder, index: VectorIndex, indexer: VectorIndexer) -> VectorSpace:
    vectors = LimitedVectorSearch(trace_vector_index(index, settings))
    return VectorSpace(indexer.collection, embedder, vectors, indexer, query_limit(embedder))
