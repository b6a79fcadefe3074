"""Compaction: copy the live points of a shard to new files, page by page, to erase deleted content.

The engine cannot rewrite its write-ahead log, so all files are replaced. During the copy, the shard reads from the old
files, and applies each write to the old and the new files.
"""

from __future__ import annotations

from pathlib import Path

import qdrant_edge as qdrant

from nomemory.server.search.semantic.edge.engine import PointId, open_engine, upsert_points
from nomemory.server.search.semantic.edge.stored_point import has_valid_version, read_unit_vector
from nomemory.server.search.semantic.points import USER


class Compaction:
    """Copies the points of an engine to new files.

    Args:
        source: the engine with the files in use.
        directory: the directory of the new files. The directory must not exist yet.

    Attributes:
        target: the engine with the new files. The caller must apply every write to the source and to the target.
    """

    def __init__(self, source: qdrant.EdgeShard, directory: Path, dimension: int) -> None:
        self._source = source
        self._dimension = dimension
        self._offset: PointId | None = None
        self.directory = directory
        self.target = open_engine(directory, dimension)

    def copy_page(self, limit: int) -> bool:
        """Copy the next `limit` points, in the order of their identifiers. Return whether there are more points.

        Damaged points are omitted. The reconciliation with the message log restores the omitted points.
        """
        page = qdrant.ScrollRequest(limit=limit, offset=self._offset, with_payload=True, with_vector=True)
        records, self._offset = self._source.scroll(page)
        points = [point for record in records if (point := self._copy_point(record)) is not None]
        if points:
            upsert_points(self.target, points)
        return self._offset is not None

    def _copy_point(self, record: qdrant.Record) -> qdrant.Point | None:
        vector = read_unit_vector(record, self._dimension)
        if vector is None or not has_valid_version(record) or not isinstance((record.payload or {}).get(USER), str):
            return None
        return qdrant.Point(record.id, vector, record.payload)
