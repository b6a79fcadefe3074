"""A shard of Qdrant Edge with the vectors of one collection.

The shard runs in a worker process, because calls of the engine hold the GIL. The server process calls the shard through
`index.EdgeIndex`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

import qdrant_edge as qdrant

from nomemory.server.embedding.vector import Vector, deserialize_vector, serialize_vector
from nomemory.server.search.semantic.edge.compaction import Compaction
from nomemory.server.search.semantic.edge.engine import PointId, delete_points, open_engine, upsert_points
from nomemory.server.search.semantic.edge.messages import NearestQuery, ScoredPoint, UserPoints
from nomemory.server.search.semantic.edge.shard_directory import ShardDirectory
from nomemory.server.search.semantic.edge.stored_point import (
    has_valid_version,
    is_valid_point,
    read_sequence,
    read_unit_vector,
)
from nomemory.server.search.semantic.filter_conditions import (
    Condition,
    ExclusionCondition,
    MatchCondition,
    RangeCondition,
)
from nomemory.server.search.semantic.points import (
    SEQUENCE,
    TIME,
    USER,
    build_payload,
    build_point_id,
    iterate_point_id_blocks,
)
from nomemory.server.search.semantic.protocol import VectorPoint

_PAGE_POINTS: Final = 1000
"""Points per page. Reading a page takes a few milliseconds, or about 20 ms with vectors."""
_MAX_CACHED_VERSIONS: Final = 65_536
"""Maximum number of cached versions, about 20 MB."""
_MAX_USERS: Final = 2**31
_EXACT: Final = qdrant.SearchParams(exact=True)


class NotCompactingError(Exception):
    """There is no compaction in progress, because the worker was restarted or a write to the new files failed."""


class Shard:
    """Stores points, and finds the nearest points by exact search. Vectors must have length 1.

    Args:
        root: the directory of the shard.
    """

    def __init__(self, root: Path, dimension: int) -> None:
        self._directory = ShardDirectory(root)
        self._dimension = dimension
        self._compaction: Compaction | None = None
        self._versions: dict[PointId, tuple[int, int]] = {}
        self._directory.remove_unused_versions()
        current = self._directory.find_current_version()
        if current is None:
            current = self._directory.create_version_path()
            self._engine = open_engine(current, dimension)
            self._engine.flush()
            self._directory.set_current_version(current)
        else:
            self._engine = open_engine(current, dimension)

    def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points. A point with the same user, message and part is overwritten."""
        stored = [_build_engine_point(point) for point in points]
        self._evict_versions(point.id for point in stored)
        upsert_points(self._engine, stored)
        if self._compaction is not None:
            with self._cancel_compaction_on_failure():
                upsert_points(self._compaction.target, stored)

    def remove(self, user_id: str, message_id: str, from_part: int) -> None:
        """Delete the points of a message from part `from_part` on."""
        for block in iterate_point_id_blocks(user_id, message_id, from_part):
            records = self._engine.retrieve(list(block), with_payload=False, with_vector=False)
            if not records:
                return
            self._delete_records(records)

    def remove_versions(self, user_id: str, sequences: Sequence[int]) -> bool:
        """Delete a page of the points that belong to versions of a user's messages.

        Return whether there may be more points to delete.
        """
        versions = qdrant.FieldCondition(SEQUENCE, match=qdrant.MatchAny(list(sequences)))
        only = qdrant.Filter(must=[_build_user_condition(user_id), versions])
        records, _ = self._engine.scroll(qdrant.ScrollRequest(limit=_PAGE_POINTS, filter=only, with_payload=False))
        self._delete_records(records)
        return len(records) == _PAGE_POINTS

    def search(self, queries: Sequence[NearestQuery]) -> list[list[ScoredPoint]]:
        """Run several searches in one pass over the segments."""
        batch = qdrant.QueryBatchRequest([_build_query_request(query) for query in queries])
        return [self._add_versions(points) for points in self._engine.query_batch(batch)]

    def read_version_vectors(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the vectors of a version of a message, in the order of its parts."""
        vectors: list[Vector] = []
        for block in iterate_point_id_blocks(user_id, message_id, 0):
            records = self._engine.retrieve(list(block), with_payload=[SEQUENCE], with_vector=True)
            by_id = {record.id: record for record in records}
            for part in block:
                record = by_id.get(part)
                numbers = read_unit_vector(record, self._dimension) if record is not None else None
                if record is None or numbers is None or read_sequence(record) != sequence:
                    return vectors
                vectors.append(serialize_vector(numbers))
        return vectors

    def read_first_vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vector of the first part of each message. Messages without a vector are omitted."""
        by_point: dict[PointId, str] = {
            build_point_id(user_id, message_id, 0): message_id for message_id in message_ids
        }
        records = self._engine.retrieve(list(by_point), with_payload=False, with_vector=True)
        stored = ((record.id, read_unit_vector(record, self._dimension)) for record in records)
        return {by_point[point]: serialize_vector(numbers) for point, numbers in stored if numbers is not None}

    def read_user_points(self, user_id: str, offset: str | None, *, with_vectors: bool) -> UserPoints:
        """Read a page of a user's points that a search can find.

        If `offset` is None, the first page is read. If `with_vectors`, the vectors are validated in addition to the
        payloads.
        """
        page = qdrant.ScrollRequest(
            offset=None if offset is None else UUID(offset),
            limit=_PAGE_POINTS,
            filter=qdrant.Filter(must=[_build_user_condition(user_id)]),
            with_payload=[TIME, SEQUENCE],
            with_vector=with_vectors,
        )
        records, next_offset = self._engine.scroll(page)
        sequences = [
            read_sequence(record)
            for record in records
            if (is_valid_point(record, self._dimension) if with_vectors else has_valid_version(record))
        ]
        return UserPoints(sequences, len(records) - len(sequences), None if next_offset is None else str(next_offset))

    def list_users(self) -> set[str]:
        """Return the users who have points. The result may include users whose points were removed."""
        facet = self._engine.facet(qdrant.FacetRequest(USER, limit=_MAX_USERS))
        return {str(hit.value) for hit in facet.hits}

    def count(self) -> int:
        """Count the points."""
        return self._engine.count(qdrant.CountRequest(exact=True))

    def flush(self) -> None:
        """Write all changes of the shard to disk."""
        self._engine.flush()

    def start_compaction(self) -> None:
        """Start to copy the points of the shard to new files.

        An earlier compaction that is still in progress is cancelled.
        """
        self.cancel_compaction()
        self._compaction = Compaction(self._engine, self._directory.create_version_path(), self._dimension)

    def compact_page(self, limit: int) -> bool:
        """Copy the next `limit` points, and return whether there are more points.

        After the last page, switch to the new files.

        Raises:
            NotCompactingError: no compaction is in progress.
        """
        if self._compaction is None:
            raise NotCompactingError
        with self._cancel_compaction_on_failure():
            has_more = self._compaction.copy_page(limit)
            if not has_more:
                self._switch_to_copy(self._compaction)
        return has_more

    def cancel_compaction(self) -> None:
        """Cancel a compaction in progress, and delete the new files."""
        cancelled, self._compaction = self._compaction, None
        if cancelled is not None:
            cancelled.target.close()
            self._directory.remove_unused_versions()

    def close(self) -> None:
        """Write all changes to disk and close the files."""
        self.cancel_compaction()
        self._engine.flush()
        self._engine.close()

    def _switch_to_copy(self, compaction: Compaction) -> None:
        compaction.target.flush()
        self._directory.set_current_version(compaction.directory)
        previous, self._engine, self._compaction = self._engine, compaction.target, None
        previous.close()
        self._directory.remove_unused_versions()

    @contextmanager
    def _cancel_compaction_on_failure(self) -> Iterator[None]:
        """Cancel the compaction if a write to the new files fails. The shard remains usable."""
        try:
            yield
        except BaseException:
            self.cancel_compaction()
            raise

    def _add_versions(self, points: Sequence[qdrant.ScoredPoint]) -> list[ScoredPoint]:
        """Add the time and the sequence number to each point.

        Times and sequence numbers are cached, because reading 400 payloads takes a third of the time of a search.
        """
        unknown = [point.id for point in points if point.id not in self._versions]
        if len(self._versions) + len(unknown) > _MAX_CACHED_VERSIONS:
            self._versions.clear()
            unknown = [point.id for point in points]
        if unknown:
            records = self._engine.retrieve(unknown, with_payload=[TIME, SEQUENCE], with_vector=False)
            self._versions.update((record.id, _read_version(record)) for record in records)
        return [(point.score, *self._versions[point.id]) for point in points]

    def _delete_records(self, records: Sequence[qdrant.Record]) -> None:
        point_ids = [record.id for record in records]
        self._evict_versions(point_ids)
        delete_points(self._engine, point_ids)
        if self._compaction is not None:
            with self._cancel_compaction_on_failure():
                delete_points(self._compaction.target, point_ids)

    def _evict_versions(self, point_ids: Iterable[PointId]) -> None:
        for identifier in point_ids:
            self._versions.pop(identifier, None)


def _build_engine_point(point: VectorPoint) -> qdrant.Point:
    identifier = build_point_id(point.user_id, point.message_id, point.part)
    return qdrant.Point(identifier, deserialize_vector(point.vector), build_payload(point))


def _build_query_request(query: NearestQuery) -> qdrant.QueryRequest:
    return qdrant.QueryRequest(
        limit=query.limit,
        query=qdrant.Query.Nearest(deserialize_vector(query.vector)),
        filter=_build_filter(query.conditions),
        with_payload=False,
        params=_EXACT,
    )


def _build_filter(conditions: Sequence[Condition]) -> qdrant.Filter:
    return qdrant.Filter(
        must=[
            _build_field_condition(condition)
            for condition in conditions
            if not isinstance(condition, ExclusionCondition)
        ],
        must_not=[
            qdrant.FieldCondition(condition.field, match=qdrant.MatchAny(list(condition.values)))
            for condition in conditions
            if isinstance(condition, ExclusionCondition)
        ],
    )


def _build_field_condition(condition: MatchCondition | RangeCondition) -> qdrant.FieldCondition:
    if isinstance(condition, MatchCondition):
        return qdrant.FieldCondition(condition.field, match=qdrant.MatchValue(condition.value))
    return qdrant.FieldCondition(condition.field, range=qdrant.RangeFloat(gte=condition.gte, lt=condition.lt))


def _build_user_condition(user_id: str) -> qdrant.FieldCondition:
    return _build_field_condition(MatchCondition(USER, user_id))


def _read_version(record: qdrant.Record) -> tuple[int, int]:
    stored = record.payload or {}
    return stored[TIME], stored[SEQUENCE]
