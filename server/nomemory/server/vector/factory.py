"""Makes the vector index of the settings."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nomemory.server.cannot_start import need_extra
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.processes.watchdog import WatchPolicy
from nomemory.server.settings import Settings
from nomemory.server.vector.collection import Collection, QdrantLayout, collection_of, is_begun
from nomemory.server.vector.edge.index import EdgeIndex
from nomemory.server.vector.edge.shards import EdgeShards
from nomemory.server.vector.protocol import VectorIndex


def choose_vector_index(
    settings: Settings, vectors: Path, embedder: Embedder, policy: WatchPolicy | None = None, *, log_id: str = ""
) -> VectorIndex:
    """Make the index for an embedder's vectors. Nothing is started or sent yet.

    Args:
        settings: which engine.
        vectors: the directory of all collections.
        embedder: whose vectors.
        policy: how a process of its own is watched.
        log_id: the log that it is filled from. On a server it has to be the only one.

    Raises:
        ExtraMissingError: the client of a Qdrant server is not installed.
    """
    collection = collection_of(settings, vectors, embedder)
    if settings.vector.qdrant_url is None:
        return _embedded(settings, collection, embedder.dimension, policy)
    return _on_server(settings.vector.qdrant_url, settings, collection, embedder.dimension, log_id)


def _embedded(settings: Settings, collection: Collection, dimension: int, policy: WatchPolicy | None) -> EdgeShards:
    open_shard = partial(
        EdgeIndex,
        dimension=dimension,
        timeout_s=settings.vector.timeout_s,
        policy=policy,
        pack_points=settings.vector.pack_points,
    )
    return EdgeShards(collection.shard, dimension, open_shard, settings.server.free_bytes_min)


def _on_server(url: str, settings: Settings, collection: Collection, dimension: int, log_id: str) -> VectorIndex:
    """Import the client only where there is a server: it takes half a second and 40 MB."""
    need_extra("qdrant", ("qdrant_client",), "NOMEMORY_QDRANT_URL")
    from nomemory.server.vector.qdrant.index import QdrantIndex, connect  # noqa: PLC0415

    vector, key = settings.vector, settings.vector.qdrant_api_key
    client = connect(url, key.get_secret_value() if key else None, vector.timeout_s)
    return QdrantIndex(
        client,
        collection.name,
        dimension,
        QdrantLayout.of(settings),
        timeout_s=vector.timeout_s,
        probe_s=vector.probe_s,
        is_new=settings.server.log is None and not is_begun(collection.backlog),
        log_id=log_id,
    )
