"""How the embedded engine is used: how it is set up, and how points are packed and copied."""

from __future__ import annotations

from uuid import UUID

import qdrant_edge as qdrant

from nomemory.server.embedding.vector import NUMBER
from nomemory.server.vector.points import CONVERSATION, METADATA, ROLE, TIME, USER

_PACKED_AT_ONCE = 4
"""So many times the points of a segment are packed in one go, at most."""


_PAYLOAD_INDEXES: dict[str, qdrant.KeywordIndexParams | qdrant.IntegerIndexParams] = {
    USER: qdrant.KeywordIndexParams(is_tenant=True),
    CONVERSATION: qdrant.KeywordIndexParams(enable_hnsw=False),
    METADATA: qdrant.KeywordIndexParams(enable_hnsw=False),
    ROLE: qdrant.IntegerIndexParams(lookup=True, range=False, enable_hnsw=False),
    TIME: qdrant.IntegerIndexParams(lookup=False, range=True, enable_hnsw=False),
}
_SEGMENTS_MAX = 1000
_KIB = 1024


def config_of(dimension: int, pack_points: int) -> qdrant.EdgeConfig:
    """Describe a shard without a graph: within one user exact search is as fast, and filters lose nothing.

    What is packed stays as it is, so that packing takes no longer in a large shard.
    """
    segment_kib = max(1, pack_points * dimension * NUMBER.itemsize // _KIB)
    return qdrant.EdgeConfig(
        vectors=qdrant.EdgeVectorParams(size=dimension, distance=qdrant.Distance.Cosine),
        hnsw_config=qdrant.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=10_000),
        optimizers=qdrant.EdgeOptimizersConfig(
            indexing_threshold=1, default_segment_number=_SEGMENTS_MAX, max_segment_size=segment_kib
        ),
        wal_enabled=True,
    )


def index_payload(engine: qdrant.EdgeShard) -> None:
    """Make the indexes of fields that are missing."""
    made = engine.info().payload_schema
    for field, params in _PAYLOAD_INDEXES.items():
        if field not in made:
            engine.update(qdrant.UpdateOperation.create_field_index(field, params))


class Packing:
    """Has an engine put new points into a segment of their own, those of a user beside each other, by so many.

    A segment that is packed takes less memory and is searched in less time. The engine answers nothing meanwhile:
    packing 20,000 points takes it half a second. Points that are not packed at the start are packed with the next ones,
    unless there are too many: then they are when they are copied.

    Args:
        engine: whose.
        points: so many.
    """

    def __init__(self, engine: qdrant.EdgeShard, points: int) -> None:
        info = engine.info()
        self._engine = engine
        self._points = points
        self._loose = info.points_count - info.indexed_vectors_count
        self._is_possible = self._loose <= _PACKED_AT_ONCE * points

    def note(self, points: int) -> None:
        """Take note of new points."""
        self._loose += points

    def pack(self) -> None:
        """Pack the points that came since the last time, if there are enough of them."""
        if self._is_possible and self._loose >= self._points:
            self._engine.optimize()
            self._loose = 0


Identity = int | UUID | str
"""As the engine has it."""


class CopyLostError(Exception):
    """The copying has to begin again."""


class ShardCopy:
    """A shard into which the points of another are copied, in the order of their ids."""

    def __init__(self, engine: qdrant.EdgeShard, pack_points: int) -> None:
        self.engine = engine
        self._packing = Packing(engine, pack_points)
        self._next: Identity | None = None

    def take(self, source: qdrant.EdgeShard, most: int) -> bool:
        """Copy the next points; return whether there are more."""
        wanted = qdrant.ScrollRequest(limit=most, offset=self._next, with_payload=True, with_vector=True)
        records, self._next = source.scroll(wanted)
        if records:
            points = [qdrant.Point(record.id, record.vector or [], record.payload) for record in records]
            self.engine.update(qdrant.UpdateOperation.upsert_points(points))
            self._packing.note(len(points))
            self._packing.pack()
        return self._next is not None

    def close(self) -> None:
        """Bring everything to disk and let go of the directory."""
        self.engine.flush()
        self.engine.close()
