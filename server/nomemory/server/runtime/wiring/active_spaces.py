"""Open the active vector index and, during a model migration, the index that replaces it."""

from __future__ import annotations

from contextlib import AsyncExitStack

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.indexing.vector.indexed_spaces import IndexedSpaces
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.runtime.wiring.previous_model import PreviousModelUnavailableError, restore_previous_model
from nomemory.server.runtime.wiring.rebuild_notice import log_rebuild_notice
from nomemory.server.runtime.wiring.vector_spaces import VectorSpaces
from nomemory.server.search.semantic.collection import create_embedder_collection
from nomemory.server.search.semantic.collection_state import discard_foreign_vectors
from nomemory.server.store.position import LogPosition

_log = get_logger("server")


async def open_indexed_spaces(
    settings: Settings,
    builder: VectorSpaces,
    embedder: Embedder,
    position: LogPosition,
    faults: ActiveFaults,
    meters: Meters,
    stack: AsyncExitStack,
) -> IndexedSpaces:
    """Open the vector index of the configured model.

    The function discards an index that belongs to another message log or is ahead of its message log.

    Until the index is complete, the index of the previous model is also open and serves searches.

    Raises:
        ForeignCollectionError: a collection on the Qdrant server belongs to another message log.
    """
    collection = create_embedder_collection(settings, builder.directory.vector_collections, embedder)
    notice = log_rebuild_notice(collection.name, was_discarded=discard_foreign_vectors(collection, position))
    previous_faults, migration_notice = faults.create_previous_model_view(), ""
    try:
        previous = restore_previous_model(settings, builder.directory, embedder, position, previous_faults, meters)
    except PreviousModelUnavailableError as error:
        _log.warning(
            "the embedding model has changed: semantic searches are incomplete until all messages are embedded",
            cause=str(error),
        )
        previous, migration_notice = None, str(error)
    configured = builder.build(settings, embedder, faults)
    stack.push_async_callback(configured.close)
    if previous is None:
        spaces = IndexedSpaces(configured, None, notice, migration_notice)
    else:
        _log.info(
            "the embedding model has changed; the previous one serves reads until the new index is complete",
            collection=collection.name,
        )
        watched = previous.watched
        serving = builder.build(previous.settings, previous.embedder, previous_faults, lambda: watched.failing_s)
        stack.push_async_callback(serving.close)
        spaces = IndexedSpaces(serving, configured, notice)
    await spaces.check_collection_owner()
    return spaces
