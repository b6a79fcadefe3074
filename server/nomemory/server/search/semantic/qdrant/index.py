"""The vector index on a Qdrant server or cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import AsyncQdrantClient, models

from nomemory.server.embedding.vector import NUMBER, Vector, deserialize_vector
from nomemory.server.faults import Fault
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.filter_conditions import (
    Condition,
    ExclusionCondition,
    MatchCondition,
    RangeCondition,
    build_filter_conditions,
)
from nomemory.server.search.semantic.message_hits import GROWTH, compute_initial_point_limit, rank_messages
from nomemory.server.search.semantic.normalization import normalize_points, normalize_query
from nomemory.server.search.semantic.points import (
    SEQUENCE,
    TIME,
    USER,
    build_payload,
    build_point_id,
    iterate_point_id_blocks,
)
from nomemory.server.search.semantic.protocol import MessageKey, StoredPoints, VectorHit, VectorPoint
from nomemory.server.search.semantic.qdrant.collection import QdrantCollection
from nomemory.server.search.semantic.qdrant.collection_owner import CollectionOwner
from nomemory.server.search.semantic.qdrant.reachability import ForeignCollectionError
from nomemory.server.search.semantic.qdrant.responses import await_response, build_unavailable_fault
from nomemory.server.search.semantic.qdrant.sharding import QdrantSharding

_log = get_logger("vectors")
_MAX_UPSERT = 256
_PAGE_POINTS = 1000
_MAX_USERS = 2**31
_MAX_NORM_ERROR = 1e-3
_HTTP_PORT, _GRPC_PORT = 6333, 6334
_EXACT = models.SearchParams(exact=True)
_UNSHARDED = QdrantSharding()


def create_client(url: str, api_key: str | None, timeout_s: float) -> AsyncQdrantClient:
    """Create a client of a Qdrant server, without connecting.

    Args:
        url: `grpc://HOST:PORT` and `grpcs://…` select gRPC on this port. `http://…` and `https://…` select HTTP on this
            port; with port 6333 or no port, the client also uses gRPC on port 6334. `:memory:` selects an in-memory
            index for tests.
        api_key: the API key; None if the server needs none.
        timeout_s: the timeout of a call, in seconds.
    """
    if url == ":memory:":
        return AsyncQdrantClient(location=url)
    parts = urlsplit(url)
    is_grpc = parts.scheme in ("grpc", "grpcs")
    return AsyncQdrantClient(
        url=f"{'http' if parts.scheme == 'grpc' else 'https'}://{parts.hostname}:{_HTTP_PORT}" if is_grpc else url,
        prefer_grpc=is_grpc or parts.port in (None, _HTTP_PORT),
        grpc_port=(parts.port if is_grpc else None) or _GRPC_PORT,
        api_key=api_key,
        timeout=max(1, round(timeout_s)),
        check_compatibility=False,  # the check makes a blocking call
    )


class QdrantIndex:
    """Implements `VectorIndex` on a Qdrant server. The server acknowledges a write when it is applied and durable.

    Every method can raise ForeignCollectionError if the collection belongs to another message log.

    Args:
        client: the client of the server, which the index closes.
        collection: the name of the collection, to which the sharding may add a suffix. The first call creates the
            collection.
        sharding: the shard keys and replicas of the collection.
        timeout_s: the timeout of a search, in seconds.
        probe_s: the timeout of a probe, in seconds.
        is_new: whether this message log has never stored points. For a new message log, an existing collection without
            another owner is deleted, because its sequence numbers belong to another epoch of the message log.
        log_id: the id of the message log to which the collection belongs; empty in tests.
    """

    def __init__(
        self,
        client: AsyncQdrantClient,
        collection: str,
        dimension: int,
        sharding: QdrantSharding = _UNSHARDED,
        *,
        timeout_s: float = 30.0,
        probe_s: float = 5.0,
        is_new: bool = False,
        log_id: str = "",
    ) -> None:
        self.reconcile_requested = asyncio.Event()
        self._probe_s = probe_s
        self._is_unavailable = False
        self._client = client
        self._owner = CollectionOwner(client, log_id)
        self._collection = sharding.build_collection_name(collection)
        self._sharding = sharding
        self._timeout_s = max(1, round(timeout_s))
        self._ordering = models.WriteOrdering.MEDIUM if sharding.is_replicated else None
        self._consistency = models.ReadConsistencyType.MAJORITY if sharding.is_replicated else None
        self._dimension = dimension
        self._is_created = False
        self._is_new = is_new
        self._creating = asyncio.Lock()

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points. A point with the same user, message and part is overwritten."""
        usable = list(normalize_points(points, self._dimension))
        await self._ensure_created()
        for start in range(0, len(usable), _MAX_UPSERT):
            await self._put_points(usable[start : start + _MAX_UPSERT])

    async def remove(self, user_id: str, message_id: str, *, from_part: int = 0) -> None:
        """Remove the points of a message from part `from_part` on."""
        await self._ensure_created()
        for block in iterate_point_id_blocks(user_id, message_id, from_part):
            records = await self._retrieve_records(user_id, [str(identifier) for identifier in block])
            if not records:
                return
            await self._delete_points(user_id, models.PointIdsList(points=[record.id for record in records]))

    async def find_surplus_messages(self, parts: Mapping[MessageKey, int]) -> Collection[MessageKey]:
        """Return the messages with more points than parts, in one request.

        The check relies on part numbers without gaps.
        """
        surplus = {str(build_point_id(*message, count)): message for message, count in parts.items()}
        await self._ensure_created()
        records = await self._retrieve_records(None, list(surplus)) if surplus else ()
        return [surplus[str(record.id)] for record in records]

    async def search(self, user_id: str, vector: Vector, filters: Filter, limit: int) -> list[VectorHit]:
        """Return the most similar messages."""
        numbers = deserialize_vector(normalize_query(vector, self._dimension))
        only = _build_filter(build_filter_conditions(user_id, filters))
        await self._ensure_created()
        window = compute_initial_point_limit(limit)
        while True:
            points = await self._find_nearest_points(user_id, numbers, only, window)
            hits = rank_messages(points, window, filters, limit)
            if hits is not None:
                return hits
            window *= GROWTH

    async def read_version_vectors(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the stored vectors of a version of a message."""
        await self._ensure_created()
        vectors = list[Vector]()
        for block in iterate_point_id_blocks(user_id, message_id, 0):
            parts = [str(identifier) for identifier in block]
            records = await self._retrieve_records(user_id, parts, with_payload=[SEQUENCE], with_vectors=True)
            by_id = {str(record.id): record for record in records}
            for part in parts:
                record = by_id.get(part)
                if record is None or (record.payload or {})[SEQUENCE] != sequence:
                    return vectors
                vectors.append(np.asarray(record.vector, NUMBER).tobytes())
        return vectors

    async def read_vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of the first part of each message."""
        by_point = {str(build_point_id(user_id, message_id, 0)): message_id for message_id in message_ids}
        await self._ensure_created()
        records = await self._retrieve_records(user_id, list(by_point), with_vectors=True)
        return {by_point[str(record.id)]: np.asarray(record.vector, NUMBER).tobytes() for record in records}

    async def remove_versions(self, user_id: str, sequences: Sequence[int]) -> None:
        """Remove the points of versions of a user's messages."""
        await self._ensure_created()
        versions = models.FieldCondition(key=SEQUENCE, match=models.MatchAny(any=list(sequences)))
        only = models.Filter(must=[_build_field_condition(MatchCondition(USER, user_id)), versions])
        await self._delete_points(user_id, models.FilterSelector(filter=only))

    async def list_users(self) -> set[str]:
        """Return the users who have points."""
        await self._ensure_created()
        facet = await await_response(self._client.facet(self._collection, USER, limit=_MAX_USERS))
        return {str(hit.value) for hit in facet.hits}

    async def flush(self) -> None:
        """Do nothing, because the server acknowledges only durable writes."""

    async def erase_deleted(self) -> None:
        """Do nothing, because the server decides when to optimize its segments."""

    async def count(self) -> int:
        """Count the points."""
        await self._ensure_created()
        return (await await_response(self._client.count(self._collection, exact=True))).count

    async def read_points(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        """Read the points of users page by page."""
        await self._ensure_created()
        by_user: list[Counter[int]] = []
        invalid = 0
        for user_id in user_ids:
            points = Counter[int]()
            async for record in self._scroll_records(user_id, with_vectors=with_vectors):
                if _is_valid_record(record, self._dimension if with_vectors else 0):
                    points[(record.payload or {})[SEQUENCE]] += 1
                else:
                    invalid += 1
            by_user.append(points)
        return StoredPoints(by_user, invalid)

    async def reset(self) -> None:
        """Delete the collection. The next call creates the collection again."""
        await self._owner.check_owner(self._collection)
        await await_response(self._client.delete_collection(self._collection))
        self._is_created = False

    async def drop_collection(self, collection: str) -> None:
        """Delete another collection, if the collection exists and no other message log owns it."""
        if collection == self._collection or not await await_response(self._client.collection_exists(collection)):
            return
        try:
            await self._owner.check_owner(collection)
        except ForeignCollectionError:
            _log.warning("not deleting a collection that belongs to another message log", collection=collection)
            return
        await await_response(self._client.delete_collection(collection))

    async def probe(self) -> None:
        """Check that the server responds. After a failed check, other calls fail immediately until a check succeeds."""
        try:
            async with asyncio.timeout(self._probe_s):
                exists = await await_response(self._client.collection_exists(self._collection))
                if exists and not self._is_created:
                    await self._owner.check_owner(self._collection)
        except ForeignCollectionError:
            self._is_unavailable = False
            raise
        except (Fault, TimeoutError) as error:
            self._is_unavailable = True
            raise build_unavailable_fault(error) from error
        self._is_unavailable = False
        if self._is_created and not exists:  # the collection was deleted
            self._is_created = False
            self.reconcile_requested.set()

    async def close(self) -> None:
        """Close the client of the Qdrant server."""
        await self._client.close()

    async def _find_nearest_points(
        self, user_id: str, numbers: list[float], only: models.Filter, limit: int
    ) -> list[VectorHit]:
        reply = await await_response(
            self._client.query_points(
                self._collection,
                query=numbers,
                query_filter=only,
                limit=limit,
                with_payload=[TIME, SEQUENCE],
                search_params=_EXACT,
                consistency=self._consistency,
                shard_key_selector=self._sharding.get_shard_key(user_id),
                timeout=self._timeout_s,
            )
        )
        return [_to_hit(point) for point in reply.points]

    async def _scroll_records(self, user_id: str, *, with_vectors: bool) -> AsyncIterator[models.Record]:
        only, offset = models.Filter(must=[_build_field_condition(MatchCondition(USER, user_id))]), None
        while True:
            records, offset = await await_response(
                self._client.scroll(
                    self._collection,
                    scroll_filter=only,
                    limit=_PAGE_POINTS,
                    offset=offset,
                    with_payload=[TIME, SEQUENCE],
                    with_vectors=with_vectors,
                    consistency=self._consistency,
                    shard_key_selector=self._sharding.get_shard_key(user_id),
                )
            )
            for record in records:
                yield record
            if offset is None:
                return

    async def _put_points(self, points: Sequence[VectorPoint]) -> None:
        """Store points with different shard keys in one request."""
        parts = self._sharding.group_by_key(points)
        lists = [models.PointsList(points=list(map(_to_point_struct, some)), shard_key=key) for key, some in parts]
        puts = [models.UpsertOperation(upsert=some) for some in lists]
        await await_response(
            self._client.batch_update_points(self._collection, puts, wait=True, ordering=self._ordering)
        )

    async def _retrieve_records(
        self,
        user_id: str | None,
        ids: Sequence[str],
        *,
        with_payload: list[str] | bool = False,
        with_vectors: bool = False,
    ) -> list[models.Record]:
        return await await_response(
            self._client.retrieve(
                self._collection,
                ids,
                with_payload=with_payload,
                with_vectors=with_vectors,
                consistency=self._consistency,
                shard_key_selector=None if user_id is None else self._sharding.get_shard_key(user_id),
            )
        )

    async def _delete_points(self, user_id: str, points: models.PointIdsList | models.FilterSelector) -> None:
        await await_response(
            self._client.delete(
                self._collection,
                points,
                wait=True,
                ordering=self._ordering,
                shard_key_selector=self._sharding.get_shard_key(user_id),
            )
        )

    async def _ensure_created(self) -> None:
        if self._is_unavailable:
            raise build_unavailable_fault(ConnectionError())
        async with self._creating:
            if self._is_created:
                return
            collection = QdrantCollection(self._client, self._collection, self._dimension, self._sharding)
            await self._owner.check_owner(self._collection)
            if self._is_new:
                await collection.discard()
            await collection.create()
            await self._owner.claim_collection(self._collection)
            self._is_created = True


def _is_valid_record(record: models.Record, dimension: int) -> bool:
    """Return whether a record has a valid payload and, if `dimension` is not 0, a vector of length 1."""
    stored = record.payload or {}
    if not (isinstance(stored.get(TIME), int) and isinstance(stored.get(SEQUENCE), int)):
        return False
    if not dimension:
        return True
    vector = np.asarray(record.vector, dtype=NUMBER)
    return vector.shape == (dimension,) and abs(float(vector @ vector) - 1.0) < _MAX_NORM_ERROR


def _to_point_struct(point: VectorPoint) -> models.PointStruct:
    identifier = str(build_point_id(point.user_id, point.message_id, point.part))
    return models.PointStruct(id=identifier, vector=deserialize_vector(point.vector), payload=build_payload(point))


def _build_filter(conditions_: Sequence[Condition]) -> models.Filter:
    return models.Filter(
        must=[
            _build_field_condition(condition)
            for condition in conditions_
            if not isinstance(condition, ExclusionCondition)
        ],
        must_not=[
            models.FieldCondition(key=condition.field, match=models.MatchAny(any=list(condition.values)))
            for condition in conditions_
            if isinstance(condition, ExclusionCondition)
        ],
    )


def _build_field_condition(condition: MatchCondition | RangeCondition) -> models.FieldCondition:
    if isinstance(condition, MatchCondition):
        return models.FieldCondition(key=condition.field, match=models.MatchValue(value=condition.value))
    return models.FieldCondition(key=condition.field, range=models.Range(gte=condition.gte, lt=condition.lt))


def _to_hit(point: models.ScoredPoint) -> VectorHit:
    stored = point.payload or {}
    return VectorHit(point.score, stored[TIME], stored[SEQUENCE])
