"""Create the vector index that the settings select."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import require_extra
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.collection import Collection, create_embedder_collection
from nomemory.server.search.semantic.collection_state import has_stored_points
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.search.semantic.protocol import VectorIndex
from nomemory.server.search.semantic.qdrant.sharding import QdrantSharding

_PROBE_TIMEOUT_S: Final = 5.0
"""Time limit of a health probe of a Qdrant server, in seconds."""

_log = get_logger("vectors")


def create_vector_index(
    settings: Settings,
    collections_directory: Path,
    embedder: Embedder,
    policy: WatchPolicy | None = None,
    *,
    log_id: str = "",
) -> VectorIndex:
    """Create the index for an embedder's vectors, without starting a process or sending a request.

    `policy` limits the worker process of an embedded engine. `log_id` is the id of the message log, because a
    collection on a Qdrant server belongs to one message log.

    Raises:
        ExtraMissingError: the client of a Qdrant server is not installed.
    """
    collection = create_embedder_collection(settings, collections_directory, embedder)
    if settings.vector.qdrant_url is None:
        return _create_edge_index(settings, collection, embedder.dimension, policy)
    return _create_qdrant_index(settings.vector.qdrant_url, settings, collection, embedder.dimension, log_id)


def _create_edge_index(
    settings: Settings, collection: Collection, dimension: int, policy: WatchPolicy | None
) -> EdgeIndex:
    _delete_previous_layout(collection)
    timeout_s, min_free_bytes = settings.vector.timeout_s, settings.server.min_free_disk_bytes
    return EdgeIndex(collection.shard, dimension, timeout_s, policy, min_free_bytes=min_free_bytes)


def _delete_previous_layout(collection: Collection) -> None:
    """Delete index files with the layout of an earlier release.

    After the deletion, the server rebuilds the index from the message log.
    """
    files = list(collection.directory.glob("shard*"))
    if files:
        _log.warning("the vector index has an outdated layout and is being rebuilt", collection=collection.name)
    for path in files:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _create_qdrant_index(
    url: str, settings: Settings, collection: Collection, dimension: int, log_id: str
) -> VectorIndex:
    """Create the index on a Qdrant server.

    The client library is imported here, because the import takes half a second and 40 MB.
    """
    require_extra("qdrant", ("qdrant_client",), "NOMEMORY_QDRANT_URL")
    from nomemory.server.search.semantic.qdrant.index import QdrantIndex, create_client  # noqa: PLC0415

    vector, key = settings.vector, settings.vector.qdrant_api_key
    client = create_client(url, key.get_secret_value() if key else None, vector.timeout_s)
    return QdrantIndex(
        client,
        collection.name,
        dimension,
        QdrantSharding.from_settings(settings),
        timeout_s=vector.timeout_s,
        probe_s=_PROBE_TIMEOUT_S,
        is_new=settings.server.database_url is None and not has_stored_points(collection.backlog),
        log_id=log_id,
    )
