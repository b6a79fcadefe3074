"""Create and repair a collection on a Qdrant server."""

from __future__ import annotations

from qdrant_client import AsyncQdrantClient, models

from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.points import CONVERSATION, METADATA, ROLE, SEQUENCE, TIME, USER
from nomemory.server.search.semantic.qdrant.responses import await_response
from nomemory.server.search.semantic.qdrant.sharding import QdrantSharding

_log = get_logger("vectors")
_PAYLOAD_INDEXES: dict[str, models.KeywordIndexParams | models.IntegerIndexParams] = {
    USER: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    CONVERSATION: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False),
    METADATA: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False),
    ROLE: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False, enable_hnsw=False),
    TIME: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True, enable_hnsw=False),
    SEQUENCE: models.IntegerIndexParams(
        type=models.IntegerIndexType.INTEGER, lookup=True, range=False, enable_hnsw=False
    ),
}
"""Indexes of all fields that are used in filters. A server in strict mode rejects filters on other fields."""


_REQUIRED_FIELDS = (USER, ROLE, TIME, SEQUENCE)
_STRICT = models.StrictModeConfig(
    enabled=True, search_allow_exact=True, unindexed_filtering_retrieve=False, unindexed_filtering_update=False
)
"""Allows exact search, which the strict mode of a server may forbid."""


class QdrantCollection:
    """A collection on a Qdrant server.

    Args:
        sharding: the shard keys and replicas of a new collection.
    """

    def __init__(self, client: AsyncQdrantClient, name: str, dimension: int, sharding: QdrantSharding) -> None:
        self._client = client
        self._name = name
        self._dimension = dimension
        self._sharding = sharding

    async def create(self) -> None:
        """Create the collection, its shard keys and its payload indexes, if they do not exist.

        Raises: Fault: INDEX_UNAVAILABLE: the server does not respond, or rejects the request.
        """
        exists = await self.exists()
        if not exists:
            await self._create_collection()
        if self._sharding.buckets:
            await self._create_shard_keys()
        for field in _PAYLOAD_INDEXES:
            await self._create_index(field)
        if exists:
            await self._repair_indexes()

    async def exists(self) -> bool:
        """Return whether the server has the collection."""
        return await await_response(self._client.collection_exists(self._name))

    async def find_incomplete_indexes(self) -> tuple[int, list[str]]:
        """Return the number of points, and the names of the payload indexes that lack some of these points."""
        points = (await await_response(self._client.count(self._name, exact=True))).count
        schema = (await await_response(self._client.get_collection(self._name))).payload_schema
        return points, [field for field in _REQUIRED_FIELDS if field in schema and schema[field].points < points]

    async def discard(self) -> None:
        """Delete the collection, because its sequence numbers belong to another epoch of the message log."""
        if await self.exists():
            _log.warning(
                "the collection belongs to another epoch of the message log and is being rebuilt", collection=self._name
            )
            await await_response(self._client.delete_collection(self._name))

    async def _create_collection(self) -> None:
        sharding = self._sharding
        await await_response(
            self._client.create_collection(
                self._name,
                vectors_config=models.VectorParams(size=self._dimension, distance=models.Distance.COSINE),
                hnsw_config=models.HnswConfigDiff(m=0),
                replication_factor=sharding.replicas,
                write_consistency_factor=sharding.write_consistency,
                strict_mode_config=_STRICT,
                sharding_method=models.ShardingMethod.CUSTOM if sharding.buckets else None,
                shard_number=1 if sharding.buckets else None,
            )
        )

    async def _create_shard_keys(self) -> None:
        """Create the shard keys that are missing after an interrupted creation."""
        cluster = await await_response(self._client.collection_cluster_info(self._name))
        existing = {shard.shard_key for shard in cluster.local_shards} | {
            shard.shard_key for shard in cluster.remote_shards
        }
        for key in self._sharding.shard_keys:
            if key not in existing:
                await await_response(
                    self._client.create_shard_key(
                        self._name, key, shards_number=1, replication_factor=self._sharding.replicas
                    )
                )

    async def _create_index(self, field: str) -> None:
        await await_response(self._client.create_payload_index(self._name, field, _PAYLOAD_INDEXES[field], wait=True))

    async def _repair_indexes(self) -> None:
        """Rebuild incomplete payload indexes."""
        _, incomplete = await self.find_incomplete_indexes()
        for field in incomplete:
            _log.warning("a payload index is incomplete and is being rebuilt", collection=self._name, field=field)
            await await_response(self._client.delete_payload_index(self._name, field, wait=True))
            await self._create_index(field)
