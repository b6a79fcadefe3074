"""Collections on a Qdrant server: ownership, sharding and consistency."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from qdrant_client import grpc as qdrant
from qdrant_client.grpc.collections_service_pb2_grpc import CollectionsServicer, add_CollectionsServicer_to_server
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server

from nomemory.server.indexing.vector.backlog import Backlog
from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.collection import Collection
from nomemory.server.search.semantic.collection_state import (
    discard_foreign_vectors,
    has_stored_points,
    read_vector_checkpoint,
)
from nomemory.server.search.semantic.points import build_point_id
from nomemory.server.search.semantic.protocol import VectorPoint
from nomemory.server.search.semantic.qdrant.collection import QdrantCollection
from nomemory.server.search.semantic.qdrant.index import QdrantIndex, create_client
from nomemory.server.search.semantic.qdrant.reachability import ForeignCollectionError
from nomemory.server.search.semantic.qdrant.sharding import QdrantSharding
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import Checkpoint, LogIdentity, LogPosition
from proofs.fake_qdrant import build_collection_info

VECTOR = b"\0\0\x80?" + b"\0" * 12


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_collection_without_a_local_record_is_emptied(*, is_new: bool) -> None:
    client = create_client(":memory:", None, 5)
    before = QdrantIndex(client, "vectors", 4)
    await before.upsert([VectorPoint("u", "m", 0, 1, 0, Role.USER, "", VECTOR)])
    now = QdrantIndex(client, "vectors", 4, is_new=is_new)
    assert [hit.sequence for hit in await now.search("u", VECTOR, EVERYTHING, 10)] == ([] if is_new else [1])
    assert await now.count() == (0 if is_new else 1)
    await now.close()


POINT = VectorPoint("u", "m", 0, 1, 0, Role.USER, "", VECTOR)


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_collection_of_another_log_is_neither_read_nor_written(*, is_new: bool) -> None:
    client = create_client(":memory:", None, 5)
    theirs = QdrantIndex(client, "vectors", 4, is_new=True, log_id="theirs")
    await theirs.upsert([POINT])
    ours = QdrantIndex(client, "vectors", 4, is_new=is_new, log_id="ours")
    for call in (
        ours.probe,
        ours.count,
        ours.reset,
        partial(ours.upsert, [POINT]),
        partial(ours.search, "u", VECTOR, EVERYTHING, 10),
        partial(ours.remove, "u", "m"),
    ):
        with pytest.raises(ForeignCollectionError, match="collection vectors on the Qdrant server belongs to another"):
            await call()
    assert await theirs.count() == 1


async def test_a_collection_of_another_log_is_not_cleaned_up() -> None:
    client = create_client(":memory:", None, 5)
    theirs, former, ours = (
        QdrantIndex(client, name, 4, is_new=True, log_id=log)
        for name, log in (("vectors", "theirs"), ("former", "ours"), ("other", "ours"))
    )
    for index in (theirs, former, ours):
        await index.upsert([POINT])
    await ours.drop_collection("vectors")
    await ours.drop_collection("former")
    assert await theirs.count() == 1
    assert not await client.collection_exists("former")


async def test_a_log_uses_its_own_collection_or_one_without_an_owner() -> None:
    client = create_client(":memory:", None, 5)
    await QdrantIndex(client, "vectors", 4).upsert([POINT])  # as an earlier version did
    for _ in range(2):
        assert await QdrantIndex(client, "vectors", 4, log_id="ours").count() == 1
    assert await QdrantIndex(client, "vectors", 4, is_new=True, log_id="ours").count() == 0, (
        "a restored log has another epoch"
    )
    with pytest.raises(ForeignCollectionError):
        await QdrantIndex(client, "vectors", 4, log_id="theirs").count()


async def test_a_collection_cannot_be_claimed_by_two_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    client, met = create_client(":memory:", None, 5), asyncio.Barrier(2)
    make = QdrantCollection.create

    async def make_together(collection: QdrantCollection) -> None:
        await met.wait()
        await make(collection)

    monkeypatch.setattr(QdrantCollection, "create", make_together)
    both = [QdrantIndex(client, "vectors", 4, log_id=log) for log in ("ours", "theirs")]
    answers = await asyncio.gather(*(index.count() for index in both), return_exceptions=True)
    assert any(isinstance(answer, ForeignCollectionError) for answer in answers)
    assert len((await client.get_collection_aliases("vectors")).aliases) <= 1


async def test_an_externally_deleted_collection_is_detected() -> None:
    client = create_client(":memory:", None, 5)
    index = QdrantIndex(client, "vectors", 4, log_id="ours")
    await index.upsert([POINT])
    await index.probe()
    assert not index.reconcile_requested.is_set()
    await client.delete_collection("vectors")
    await index.probe()
    assert index.reconcile_requested.is_set()


def fed_backlog(collection: Collection, log: str, sequence: int) -> Backlog:
    backlog = Backlog(collection.backlog)
    backlog.record_log(log)
    backlog.add_changes([ChangeRef(sequence, "u", "m")], FeedPosition.from_sequence(sequence))
    return backlog


def test_a_collection_is_begun_after_the_first_points(tmp_path: Path) -> None:
    collection = Collection("vectors", tmp_path)
    backlog = fed_backlog(collection, "log", 7)
    assert not has_stored_points(collection.backlog)
    backlog.mark_applied(backlog.read_pending_messages((), 1))
    assert has_stored_points(collection.backlog)
    assert read_vector_checkpoint(collection.backlog) == Checkpoint("log", 7)
    backlog.close()


@pytest.mark.parametrize(
    ("log", "is_foreign"),
    [
        (LogPosition(LogIdentity("log"), 7), False),
        (LogPosition(LogIdentity("log"), 6), True),
        (LogPosition(LogIdentity("other"), 7), True),
        (LogPosition(LogIdentity("log", "restored"), 7), True),
    ],
)
def test_a_collection_of_another_log_or_epoch_is_discarded(
    tmp_path: Path, log: LogPosition, *, is_foreign: bool
) -> None:
    collection = Collection("vectors", tmp_path / "vectors")
    fed_backlog(collection, "log", 7).close()
    assert discard_foreign_vectors(collection, log) == is_foreign
    assert collection.directory.exists() != is_foreign


SHARDING = QdrantSharding(buckets=4, replicas=3)
USERS = [f"user-{number}" for number in range(40)]
FILTERED = {"user_id", "conversation_id", "metadata", "role", "ts", "seq"}


@dataclass
class Cluster:
    """A fake cluster that records requests and returns configured replies."""

    port: int = 0
    requests: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    exists: bool = False
    keys: list[str] = field(default_factory=list)
    points: int = 0
    indexed: int = 0
    surplus_points: list[str] = field(default_factory=list)

    def answer(self, name: str, request: Message) -> Message:
        self.requests[name].append(request)
        return getattr(self, name)() if hasattr(self, name) else _EMPTY[name]

    def CollectionExists(self) -> Message:  # noqa: N802 - the contract's names
        return qdrant.CollectionExistsResponse(result=qdrant.CollectionExists(exists=self.exists))

    def CollectionClusterInfo(self) -> Message:  # noqa: N802 - as above
        local, remote = self.keys[::2], self.keys[1::2]
        return qdrant.CollectionClusterInfoResponse(
            local_shards=[qdrant.LocalShardInfo(shard_key=qdrant.ShardKey(keyword=key)) for key in local],
            remote_shards=[qdrant.RemoteShardInfo(shard_key=qdrant.ShardKey(keyword=key)) for key in remote],
        )

    def Count(self) -> Message:  # noqa: N802 - as above
        return qdrant.CountResponse(result=qdrant.CountResult(count=self.points))

    def Get(self) -> Message:  # noqa: N802 - as above
        keyword = qdrant.PayloadSchemaType.Keyword
        schema = {name: qdrant.PayloadSchemaInfo(data_type=keyword, points=self.points) for name in FILTERED}
        schema["user_id"].points = self.indexed
        description: Message = build_collection_info(schema)
        return description

    def GetPoints(self) -> Message:  # noqa: N802 - as above
        points, self.surplus_points = self.surplus_points, []
        return qdrant.GetResponse(result=[qdrant.RetrievedPoint(id=qdrant.PointId(uuid=item)) for item in points])


_DONE = qdrant.PointsOperationResponse(result=qdrant.UpdateResult(status=qdrant.UpdateStatus.Completed))
_EMPTY: dict[str, Message] = {
    "Create": qdrant.CollectionOperationResponse(result=True),
    "CreateShardKey": qdrant.CreateShardKeyResponse(result=True),
    "CreateFieldIndex": _DONE,
    "DeleteFieldIndex": _DONE,
    "UpdateBatch": qdrant.UpdateBatchResponse(),
    "Delete": _DONE,
    "Query": qdrant.QueryResponse(),
    "Scroll": qdrant.ScrollResponse(),
}


def servicer(base: type, cluster: Cluster, **renamed: str) -> Any:  # noqa: ANN401 - of the engine's own kinds
    """Create a servicer that forwards its methods to the cluster."""

    def method(name: str) -> Any:  # noqa: ANN401 - as above
        return lambda _self, request, _context: cluster.answer(renamed.get(name, name), request)

    names = [name for name in vars(base) if name[0].isupper()]
    return type("Servicer", (base,), {name: method(name) for name in names})()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    server = grpc.server(ThreadPoolExecutor(2))
    add_CollectionsServicer_to_server(servicer(CollectionsServicer, cluster), server)  # type: ignore[no-untyped-call]
    add_PointsServicer_to_server(servicer(PointsServicer, cluster, Get="GetPoints"), server)  # type: ignore[no-untyped-call]
    cluster.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield cluster
    server.stop(0).wait()


@pytest.fixture
async def index(cluster: Cluster) -> AsyncIterator[QdrantIndex]:
    index = QdrantIndex(
        create_client(f"grpc://127.0.0.1:{cluster.port}", None, 20), "vectors", 4, SHARDING, timeout_s=7
    )
    yield index
    await index.close()


def point(user_id: str) -> VectorPoint:
    return VectorPoint(user_id, "m", 0, 1, 0, Role.USER, "", VECTOR)


def key(selector: Any) -> str:  # noqa: ANN401 - as above
    (only,) = selector.shard_keys
    return str(only.keyword)


async def test_a_collection_has_a_shard_key_per_bucket_and_replicas(cluster: Cluster, index: QdrantIndex) -> None:
    await index.count()
    (made,) = cluster.requests["Create"]
    assert made.collection_name == "vectors-b4"
    assert made.sharding_method == qdrant.ShardingMethod.Custom
    assert (made.shard_number, made.replication_factor, made.write_consistency_factor) == (1, 3, 2)
    assert made.strict_mode_config.enabled
    assert made.strict_mode_config.search_allow_exact
    keys = [item.request for item in cluster.requests["CreateShardKey"]]
    assert [item.shard_key.keyword for item in keys] == SHARDING.shard_keys
    assert {(item.shards_number, item.replication_factor) for item in keys} == {(1, 3)}


async def test_missing_shard_keys_are_created_later(cluster: Cluster, index: QdrantIndex) -> None:
    cluster.exists, cluster.keys = True, SHARDING.shard_keys[:3]
    await index.count()
    assert not cluster.requests["Create"]
    assert [item.request.shard_key.keyword for item in cluster.requests["CreateShardKey"]] == SHARDING.shard_keys[3:]


async def test_writes_use_the_shard_key_of_the_user_and_a_majority(cluster: Cluster, index: QdrantIndex) -> None:
    await index.upsert([point(user) for user in USERS])
    (batch,) = cluster.requests["UpdateBatch"]
    assert batch.wait
    assert batch.ordering.type == qdrant.WriteOrderingType.Medium
    dealt = {
        item.payload["user_id"].string_value: key(operation.upsert.shard_key_selector)
        for operation in batch.operations
        for item in operation.upsert.points
    }
    assert dealt == {user: SHARDING.get_shard_key(user) for user in USERS}
    assert set(dealt.values()) == set(SHARDING.shard_keys)
    await index.remove_versions("user-1", [1, 2])
    cluster.surplus_points = [str(build_point_id("user-1", "m", 0))]
    await index.remove("user-1", "m")
    assert len(cluster.requests["Delete"]) == 2
    for gone in cluster.requests["Delete"]:
        assert gone.wait
        assert gone.ordering.type == qdrant.WriteOrderingType.Medium
        assert key(gone.shard_key_selector) == SHARDING.get_shard_key("user-1")


async def test_reads_use_the_shard_key_of_the_user_and_a_majority(cluster: Cluster, index: QdrantIndex) -> None:
    await index.search("user-2", VECTOR, EVERYTHING, 10)
    await index.read_vectors("user-2", ["m"])
    await index.read_points(["user-2"], with_vectors=False)
    for name in ("Query", "GetPoints", "Scroll"):
        (request,) = cluster.requests[name]
        assert key(request.shard_key_selector) == SHARDING.get_shard_key("user-2"), name
        assert request.read_consistency.type == qdrant.ReadConsistencyType.Majority, name
    (query,) = cluster.requests["Query"]
    assert query.timeout == 7
    assert query.params.exact


async def test_every_filter_field_is_indexed(cluster: Cluster, index: QdrantIndex) -> None:
    await index.count()
    assert {item.field_name for item in cluster.requests["CreateFieldIndex"]} == FILTERED


@pytest.mark.parametrize("indexed", [10, 9])
async def test_an_incomplete_tenant_index_is_rebuilt(cluster: Cluster, index: QdrantIndex, indexed: int) -> None:
    cluster.exists, cluster.keys, cluster.points, cluster.indexed = True, SHARDING.shard_keys, 10, indexed
    await index.count()
    assert [item.field_name for item in cluster.requests["DeleteFieldIndex"]] == ["user_id"] * (10 - indexed)
    made = [item.field_name for item in cluster.requests["CreateFieldIndex"]]
    assert made.count("user_id") == 11 - indexed


async def test_a_single_server_gets_no_shard_keys(cluster: Cluster) -> None:
    index = QdrantIndex(create_client(f"grpc://127.0.0.1:{cluster.port}", None, 20), "vectors", 4)
    await index.upsert([point("ann")])
    await index.search("ann", VECTOR, EVERYTHING, 10)
    await index.close()
    assert not cluster.requests["CreateShardKey"]
    assert not cluster.requests["CollectionClusterInfo"]
    (made,) = cluster.requests["Create"]
    assert made.collection_name == "vectors"
    assert not made.HasField("sharding_method")
    (request,) = cluster.requests["Query"]
    assert not request.HasField("shard_key_selector")
    assert not request.HasField("read_consistency")


@pytest.mark.parametrize(("replicas", "expected"), [(1, 1), (2, 2), (3, 2), (9, 5)])
def test_a_write_is_confirmed_by_a_majority_of_replicas(replicas: int, expected: int) -> None:
    settings = Settings.from_environment(qdrant_replication_factor=replicas)
    assert QdrantSharding.from_settings(settings).write_consistency == expected
