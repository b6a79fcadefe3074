"""A collection on a Qdrant server: what it answers, how it is made and mended, and whose log fills it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeVar

import grpc
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from nomemory.server.faults import Fault, index_unavailable
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.points import CONVERSATION, METADATA, ROLE, SEQUENCE, TIME, USER
from nomemory.server.vector.qdrant.reachability import ForeignCollectionError
from nomemory.server.vector.qdrant.sharding import QdrantSharding

_T = TypeVar("_T")


async def answered(answer: Awaitable[_T]) -> _T:
    """Wait for the server.

    Raises:
        Fault: INDEX_UNAVAILABLE if it does not answer, or refuses.
    """
    try:
        return await answer
    except (ApiException, QdrantException, grpc.RpcError) as error:
        raise unavailable(error) from error


def unavailable(error: BaseException) -> Fault:
    """Return what a caller is told. It names the kind of error alone: texts of the server may hold content."""
    return index_unavailable("the vector index does not answer", type(error).__name__)


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
"""Every field that a call of ours filters by: strict mode, which a server may have on, refuses others."""


_OF_EVERY_POINT = (USER, ROLE, TIME, SEQUENCE)
_STRICT = models.StrictModeConfig(
    enabled=True, search_allow_exact=True, unindexed_filtering_retrieve=False, unindexed_filtering_update=False
)
"""What a server's own strict mode may forbid, and searches here need: to look at all of a user's points."""


class QdrantCollection:
    """One collection.

    Args:
        client: the connection.
        name: its name.
        dimension: how many numbers a vector has.
        sharding: how it is distributed when it is created.
    """

    def __init__(self, client: AsyncQdrantClient, name: str, dimension: int, sharding: QdrantSharding) -> None:
        self._client = client
        self._name = name
        self._dimension = dimension
        self._sharding = sharding

    async def make(self) -> None:
        """Make what is missing of it: itself, its shard keys, its payload indexes.

        Raises:
            Fault: INDEX_UNAVAILABLE if the server does not answer, or refuses.
        """
        is_there = await self.exists()
        if not is_there:
            await self._create()
        if self._sharding.buckets:
            await self._make_keys()
        for field in _PAYLOAD_INDEXES:
            await self._index(field)
        if is_there:
            await self._mend_indexes()

    async def exists(self) -> bool:
        """Return whether the server has it."""
        return await answered(self._client.collection_exists(self._name))

    async def lacking(self) -> tuple[int, list[str]]:
        """Count the points; name the payload indexes that do not know all: a search by them misses the others."""
        points = (await answered(self._client.count(self._name, exact=True))).count
        known = (await answered(self._client.get_collection(self._name))).payload_schema
        return points, [field for field in _OF_EVERY_POINT if field in known and known[field].points < points]

    async def discard(self) -> None:
        """Delete it, because this log has put nothing into it: what it has would be taken for what this log has."""
        if await self.exists():
            _log.warning("the collection is not of this log as it is now, and is built anew", collection=self._name)
            await answered(self._client.delete_collection(self._name))

    async def _create(self) -> None:
        sharding = self._sharding
        await answered(
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

    async def _make_keys(self) -> None:
        """Make the shard keys that are not there: whoever began may not have come to the end."""
        cluster = await answered(self._client.collection_cluster_info(self._name))
        there = {one.shard_key for one in cluster.local_shards} | {one.shard_key for one in cluster.remote_shards}
        for key in self._sharding.keys:
            if key not in there:
                await answered(
                    self._client.create_shard_key(
                        self._name, key, shards_number=1, replication_factor=self._sharding.replicas
                    )
                )

    async def _index(self, field: str) -> None:
        await answered(self._client.create_payload_index(self._name, field, _PAYLOAD_INDEXES[field], wait=True))

    async def _mend_indexes(self) -> None:
        """Build anew the payload indexes that do not know every point."""
        _, lacking = await self.lacking()
        for field in lacking:
            _log.warning("a payload index lacks points and is built anew", collection=self._name, field=field)
            await answered(self._client.delete_payload_index(self._name, field, wait=True))
            await self._index(field)


_MARK: Final = ".log-"


class QdrantOwner:
    """Speaks for one log. A log's epoch does not matter: a log that was restored is the same one.

    A collection that nobody owns is of a version that named no owner, or was not finished.

    Args:
        client: the connection.
        log_id: the log; empty: none, which may use any collection and owns none.

    Raises (any method): Fault INDEX_UNAVAILABLE, the server does not answer, or refuses.
    """

    def __init__(self, client: AsyncQdrantClient, log_id: str) -> None:
        self._client = client
        self._log_id = log_id

    async def refuse_other(self, collection: str) -> None:
        """Look whether a collection is another log's.

        Raises:
            ForeignCollectionError: it is.
        """
        if not self._log_id or not await answered(self._client.collection_exists(collection)):
            return
        if await self._owners(collection) - {self._log_id}:
            raise ForeignCollectionError(collection)

    async def own(self, collection: str) -> None:
        """Note that a collection is this log's.

        Raises:
            ForeignCollectionError: another log has taken it meanwhile. Of two that come at once both may be refused.
        """
        if not self._log_id or await self._owners(collection) == {self._log_id}:
            return
        alias = f"{collection}{_MARK}{self._log_id}"
        ours = models.CreateAlias(collection_name=collection, alias_name=alias)
        await self._change(models.CreateAliasOperation(create_alias=ours))
        if await self._owners(collection) - {self._log_id}:
            await self._change(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
            raise ForeignCollectionError(collection)

    async def _owners(self, collection: str) -> set[str]:
        found = await answered(self._client.get_collection_aliases(collection))
        begin = f"{collection}{_MARK}"
        return {one.alias_name.removeprefix(begin) for one in found.aliases if one.alias_name.startswith(begin)}

    async def _change(self, operation: models.CreateAliasOperation | models.DeleteAliasOperation) -> None:
        await answered(self._client.update_collection_aliases(change_aliases_operations=[operation]))
