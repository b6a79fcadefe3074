"""The embedded engine: one Qdrant Edge shard in a directory. Its calls hold the interpreter's lock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast
from uuid import UUID

import qdrant_edge as qdrant

from nomemory.server.embedding.vector import NUMBER_BYTES, Vector, numbers_of, vector_of
from nomemory.server.vector.edge.calls import NearestPoints, Scored, StoredOfUser, WholePoint, WholeRead
from nomemory.server.vector.edge.files import create
from nomemory.server.vector.points import (
    CONVERSATION,
    METADATA,
    ROLE,
    SEQUENCE,
    TIME,
    USER,
    Condition,
    Match,
    part_blocks,
    payload,
    point_id,
)
from nomemory.server.vector.protocol import VectorPoint

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
    segment_kib = max(1, pack_points * dimension * NUMBER_BYTES // _KIB)
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
Facts = tuple[int, int]
"""A point's `ts` and the sequence of its version."""
_KNOWN_MAX = 65_536
"""Points whose facts are remembered: about 20 MB. Beyond, all are forgotten at once."""


_EXACT = qdrant.SearchParams(exact=True)
_LENGTH_ERROR_MAX = 1e-3
_USERS_MAX = 2**31
_READ_MAX = 1000
"""Points that are read in one piece of work: a few milliseconds, or some twenty with their vectors."""


_PACK_POINTS = 20_000


class Shard:
    """Stores points and finds the nearest ones exactly. Vectors must have length one.

    Args:
        directory: where it lives.
        dimension: how many numbers a vector has.
        pack_points: how many new points are packed together.
    """

    def __init__(self, directory: Path, dimension: int, pack_points: int = _PACK_POINTS) -> None:
        self._config = config_of(dimension, pack_points)
        if not directory.exists():
            create(directory, self._make)
        self._engine = qdrant.EdgeShard.load(str(directory), self._config)
        index_payload(self._engine)  # one that an earlier version made may lack an index
        self._packing = Packing(self._engine, pack_points)
        self._dimension = dimension
        self._known: dict[Identity, Facts] = {}

    def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points; those with an id that exists are overwritten."""
        self._upsert(list(map(_stored, points)))

    def remove(self, user_id: str, message_id: str, from_part: int) -> None:
        """Remove the points of a message from a part on."""
        for block in part_blocks(user_id, message_id, from_part):
            found = self._engine.retrieve(list(block), with_payload=False, with_vector=False)
            if not found:
                return
            self._delete(found)

    def remove_versions(self, user_id: str, sequences: Sequence[int]) -> bool:
        """Remove points of versions of a user's messages; return whether there may be more."""
        versions = qdrant.FieldCondition(SEQUENCE, match=qdrant.MatchAny(list(sequences)))
        only = qdrant.Filter(must=[_of_user(user_id), versions])
        records, _ = self._engine.scroll(qdrant.ScrollRequest(limit=_READ_MAX, filter=only, with_payload=False))
        self._delete(records)
        return len(records) == _READ_MAX

    def users(self) -> set[str]:
        """Return the users of whom there are points, and perhaps some of whom there were."""
        return {str(hit.value) for hit in self._engine.facet(qdrant.FacetRequest(USER, limit=_USERS_MAX)).hits}

    def vectors(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the vectors of a version of a message, of its parts from the first on."""
        vectors = list[Vector]()
        for block in part_blocks(user_id, message_id, 0):
            records = self._engine.retrieve(list(block), with_payload=[SEQUENCE], with_vector=True)
            by_id = {record.id: record for record in records}
            for part in block:
                record = by_id.get(part)
                if record is None or _sequence(record) != sequence:
                    return vectors
                numbers = _sound_numbers(record, self._dimension)
                if numbers is None:
                    return vectors
                vectors.append(vector_of(numbers))
        return vectors

    def search(self, searches: Sequence[NearestPoints]) -> list[list[Scored]]:
        """Answer several searches in one pass."""
        batch = qdrant.QueryBatchRequest([_query(search) for search in searches])
        return [self._scored(points) for points in self._engine.query_batch(batch)]

    def first_vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of messages' first parts, as far as they are stored."""
        by_point: dict[Identity, str] = {point_id(user_id, message_id, 0): message_id for message_id in message_ids}
        records = self._engine.retrieve(list(by_point), with_payload=False, with_vector=True)
        stored = ((record.id, _sound_numbers(record, self._dimension)) for record in records)
        return {by_point[point]: vector_of(numbers) for point, numbers in stored if numbers is not None}

    def read_points(self, user_id: str, offset: str | None, *, with_vectors: bool) -> StoredOfUser:
        """Read some of what is stored of a user, found as a search finds it.

        Args:
            user_id: whose.
            offset: the point to go on at; None: the first.
            with_vectors: whether the vectors are looked at, too.
        """
        wanted = qdrant.ScrollRequest(
            offset=_identity(offset),
            limit=_READ_MAX,
            filter=qdrant.Filter(must=[_of_user(user_id)]),
            with_payload=[TIME, SEQUENCE],
            with_vector=with_vectors,
        )
        records, following = self._engine.scroll(wanted)
        sound = [_sequence(record) for record in records if self._is_sound(record, with_vectors=with_vectors)]
        return StoredOfUser(sound, len(records) - len(sound), _written(following))

    def read_whole(self, offset: str | None, most: int) -> WholeRead:
        """Read points of all users as they are stored, in the order of their ids. Damaged ones are left out."""
        wanted = qdrant.ScrollRequest(limit=most, offset=_identity(offset), with_payload=True, with_vector=True)
        records, following = self._engine.scroll(wanted)
        points = [
            WholePoint(str(record.id), _vector(record), record.payload)
            for record in records
            if record.payload and isinstance(record.payload.get(USER), str)
            if self._is_sound(record, with_vectors=True)
        ]
        return WholeRead(points, _written(following))

    def store_whole(self, points: Sequence[WholePoint]) -> None:
        """Store points as they were read."""
        self._upsert([qdrant.Point(UUID(one.identity), numbers_of(one.vector), dict(one.payload)) for one in points])

    def flush(self) -> None:
        """Bring everything to disk."""
        self._engine.flush()

    def count(self, *, exact: bool = True) -> int:
        """Count the points."""
        return self._engine.count(qdrant.CountRequest(exact=exact))

    def close(self) -> None:
        """Bring everything to disk and let go of the directory."""
        self._engine.flush()
        self._engine.close()

    def _scored(self, points: Sequence[qdrant.ScoredPoint]) -> list[Scored]:
        """Add the facts of points, which are remembered: to ask for those of 400 takes a third of a search."""
        unknown = [point.id for point in points if point.id not in self._known]
        if len(self._known) + len(unknown) > _KNOWN_MAX:
            self._known.clear()
            unknown = [point.id for point in points]
        if unknown:
            records = self._engine.retrieve(unknown, with_payload=[TIME, SEQUENCE], with_vector=False)
            self._known.update((record.id, _facts(record)) for record in records)
        return [(point.score, *self._known[point.id]) for point in points]

    def _delete(self, records: Sequence[qdrant.Record]) -> None:
        gone = [record.id for record in records]
        self._forget(gone)
        self._engine.update(qdrant.UpdateOperation.delete_points(gone))

    def _forget(self, changing: Iterable[Identity]) -> None:
        for identity in changing:
            self._known.pop(identity, None)

    def _upsert(self, points: Sequence[qdrant.Point]) -> None:
        self._forget(point.id for point in points)
        self._engine.update(qdrant.UpdateOperation.upsert_points(list(points)))
        self._packing.note(len(points))
        self._packing.pack()

    def _make(self, directory: Path) -> None:
        """Make an empty shard."""
        engine = qdrant.EdgeShard.create(str(directory), self._config)
        index_payload(engine)
        engine.flush()
        engine.close()

    def _is_sound(self, record: qdrant.Record, *, with_vectors: bool) -> bool:
        stored = record.payload or {}
        has_facts = isinstance(stored.get(TIME), int) and isinstance(stored.get(SEQUENCE), int)
        return has_facts and (not with_vectors or _sound_numbers(record, self._dimension) is not None)


def _identity(offset: str | None) -> UUID | None:
    return None if offset is None else UUID(offset)


def _written(following: Identity | None) -> str | None:
    return None if following is None else str(following)


def _vector(record: qdrant.Record) -> Vector:
    return vector_of(cast("list[float]", record.vector))  # what is sound has no other form


def _sound_numbers(record: qdrant.Record, dimension: int) -> list[float] | None:
    """Return a record's vector if it can be searched: it has all of its numbers, and length one. Else None."""
    vector = record.vector  # the engine makes a list at each look
    if not isinstance(vector, list) or len(vector) != dimension:
        return None
    numbers = cast("list[float]", vector)  # what has all of its numbers has no other form
    length = math.hypot(*numbers)
    return numbers if abs(length * length - 1.0) < _LENGTH_ERROR_MAX else None


def _sequence(record: qdrant.Record) -> int:
    return int((record.payload or {}).get(SEQUENCE, -1))


def _stored(point: VectorPoint) -> qdrant.Point:
    identity = point_id(point.user_id, point.message_id, point.part)
    return qdrant.Point(identity, numbers_of(point.vector), payload(point))


def _query(search: NearestPoints) -> qdrant.QueryRequest:
    return qdrant.QueryRequest(
        limit=search.limit,
        query=qdrant.Query.Nearest(numbers_of(search.vector)),
        filter=qdrant.Filter(must=[_field_condition(condition) for condition in search.conditions]),
        with_payload=False,
        params=_EXACT,
    )


def _field_condition(condition: Condition) -> qdrant.FieldCondition:
    if isinstance(condition, Match):
        return qdrant.FieldCondition(condition.field, match=qdrant.MatchValue(condition.value))
    return qdrant.FieldCondition(condition.field, range=qdrant.RangeFloat(gte=condition.gte, lt=condition.lt))


def _of_user(user_id: str) -> qdrant.FieldCondition:
    return _field_condition(Match(USER, user_id))


def _facts(record: qdrant.Record) -> Facts:
    stored = record.payload or {}
    return stored[TIME], stored[SEQUENCE]
