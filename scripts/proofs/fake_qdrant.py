"""In-process fake of a Qdrant server that implements its gRPC protocol and stores points in memory.

The local mode of the Qdrant client stores and searches the points. The fake has no replicas and no shards, and ignores
shard keys.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from qdrant_client import QdrantClient, models
from qdrant_client import grpc as qdrant
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc.collections_service_pb2_grpc import CollectionsServicer, add_CollectionsServicer_to_server
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server

_DONE = qdrant.PointsOperationResponse(result=qdrant.UpdateResult(status=qdrant.UpdateStatus.Completed))
_CHANGED = qdrant.CollectionOperationResponse(result=True)


_INDEXED = ("user_id", "conversation_id", "metadata", "role", "ts", "seq")


def build_collection_info(payload_schema: dict[str, Any]) -> Any:  # noqa: ANN401 - Qdrant message types
    """Return the description of a collection with the given payload indexes."""
    config = qdrant.CollectionConfig(
        hnsw_config=qdrant.HnswConfigDiff(m=0, ef_construct=100, full_scan_threshold=10_000),
        optimizer_config=qdrant.OptimizersConfigDiff(
            deleted_threshold=0.2, vacuum_min_vector_number=1000, default_segment_number=0, flush_interval_sec=5
        ),
        wal_config=qdrant.WalConfigDiff(wal_capacity_mb=32, wal_segments_ahead=0),
    )
    info = qdrant.CollectionInfo(status=qdrant.CollectionStatus.Green, config=config, payload_schema=payload_schema)
    return qdrant.GetCollectionInfoResponse(result=info)


class FakeQdrant:
    """The methods of the Qdrant services. `Any` is used in place of the Qdrant message types.

    Attributes:
        points: the stored points, in the local mode of the Qdrant client.
        port: port on 127.0.0.1.
        unindexed: number of points that the collection info reports as not yet in the payload indexes.
    """

    def __init__(self) -> None:
        self.points = QdrantClient(":memory:")
        self.port = 0
        self.unindexed = 0

    @property
    def url(self) -> str:
        """URL of the fake server."""
        return f"grpc://127.0.0.1:{self.port}"

    def CollectionExists(self, request: Any) -> Any:  # noqa: ANN401, N802 - names of the Qdrant API, here and below
        """Return whether a collection exists."""
        exists = self.points.collection_exists(request.collection_name)
        return qdrant.CollectionExistsResponse(result=qdrant.CollectionExists(exists=exists))

    def Create(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Create a collection."""
        size = request.vectors_config.params.size
        if not self.points.collection_exists(request.collection_name):
            config = models.VectorParams(size=size, distance=models.Distance.COSINE)
            self.points.create_collection(request.collection_name, config)
        return _CHANGED

    def Delete(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Delete a collection or points; both services have a method of this name."""
        if isinstance(request, qdrant.DeleteCollection):
            self.points.delete_collection(request.collection_name)
            return _CHANGED
        self.points.delete(request.collection_name, GrpcToRest.convert_points_selector(request.points))
        return _DONE

    def UpdateAliases(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Create and delete collection aliases."""
        operations = list(map(GrpcToRest.convert_alias_operations, request.actions))
        self.points.update_collection_aliases(change_aliases_operations=operations)
        return _CHANGED

    def ListCollectionAliases(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Return the aliases of a collection."""
        aliases = self.points.get_collection_aliases(request.collection_name).aliases
        return qdrant.ListAliasesResponse(aliases=list(map(RestToGrpc.convert_alias_description, aliases)))

    def CollectionClusterInfo(self, _request: Any) -> Any:  # noqa: ANN401, N802
        """Report that the collection has no shards."""
        return qdrant.CollectionClusterInfoResponse()

    def CreateShardKey(self, _request: Any) -> Any:  # noqa: ANN401, N802
        """Accept the request without effect."""
        return qdrant.CreateShardKeyResponse(result=True)

    def CreateFieldIndex(self, _request: Any) -> Any:  # noqa: ANN401, N802
        """Accept the request without effect."""
        return _DONE

    def Get(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Describe a collection or return points; both services have a method of this name."""
        if isinstance(request, qdrant.GetCollectionInfoRequest):
            points = self.points.count(request.collection_name).count
            indexed_points = points - self.unindexed
            indexed = qdrant.PayloadSchemaInfo(data_type=qdrant.PayloadSchemaType.Keyword, points=indexed_points)
            return build_collection_info(dict.fromkeys(_INDEXED, indexed))
        ids = [GrpcToRest.convert_point_id(item) for item in request.ids]
        records = self.points.retrieve(request.collection_name, ids, with_payload=True, with_vectors=True)
        return qdrant.GetResponse(result=list(map(_to_retrieved_point, records)))

    def Count(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Count all points."""
        count = self.points.count(request.collection_name).count
        return qdrant.CountResponse(result=qdrant.CountResult(count=count))

    def Upsert(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Store points."""
        self.points.upsert(request.collection_name, list(map(GrpcToRest.convert_point_struct, request.points)))
        return _DONE

    def UpdateBatch(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Store several lists of points."""
        for operation in request.operations:
            points = list(map(GrpcToRest.convert_point_struct, operation.upsert.points))
            self.points.upsert(request.collection_name, points)
        return qdrant.UpdateBatchResponse(result=[qdrant.UpdateResult(status=qdrant.UpdateStatus.Completed)])

    def Query(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Return the nearest points."""
        response = self.points.query_points(
            request.collection_name,
            list(request.query.nearest.dense.data),
            query_filter=GrpcToRest.convert_filter(request.filter),
            limit=request.limit,
        )
        scored = [
            qdrant.ScoredPoint(
                id=RestToGrpc.convert_extended_point_id(point.id),
                payload=RestToGrpc.convert_payload(point.payload or {}),
                score=point.score,
            )
            for point in response.points
        ]
        return qdrant.QueryResponse(result=scored)

    def Scroll(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Return points, page by page."""
        records, offset = self.points.scroll(
            request.collection_name,
            scroll_filter=GrpcToRest.convert_filter(request.filter),
            limit=request.limit,
            offset=GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None,
            with_vectors=True,
        )
        after = RestToGrpc.convert_extended_point_id(str(offset)) if offset is not None else None
        return qdrant.ScrollResponse(result=list(map(_to_retrieved_point, records)), next_page_offset=after)

    def Facet(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Return the distinct values of a field."""
        response = self.points.facet(request.collection_name, request.key, limit=100_000)
        return qdrant.FacetResponse(hits=list(map(RestToGrpc.convert_facet_value_hit, response.hits)))


@contextmanager
def run_fake_qdrant() -> Iterator[FakeQdrant]:
    """Run a fake Qdrant server until the context exits."""
    fake, lock = FakeQdrant(), threading.Lock()
    server = grpc.server(ThreadPoolExecutor(8))
    add_CollectionsServicer_to_server(_create_servicer(CollectionsServicer, fake, lock), server)  # type: ignore[no-untyped-call]
    add_PointsServicer_to_server(_create_servicer(PointsServicer, fake, lock), server)  # type: ignore[no-untyped-call]
    fake.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield fake
    finally:
        server.stop(0).wait()


def _to_retrieved_point(record: models.Record) -> qdrant.RetrievedPoint:
    vector: Any = record.vector
    data = qdrant.VectorOutput(dense=qdrant.DenseVector(data=vector))
    return qdrant.RetrievedPoint(
        id=RestToGrpc.convert_extended_point_id(record.id),
        payload=RestToGrpc.convert_payload(record.payload or {}),
        vectors=qdrant.VectorsOutput(vector=data),
    )


def _create_servicer(base: type, fake: FakeQdrant, lock: threading.Lock) -> Any:  # noqa: ANN401
    """Return a servicer with the methods of a service that the fake implements."""

    def create_method(answer: Callable[[Any], Any]) -> Callable[[object, Any, object], Any]:
        def call_locked(_self: object, request: Any, _context: object) -> Any:  # noqa: ANN401
            with lock:
                return answer(request)

        return call_locked

    names = [name for name in vars(base) if name[0].isupper() and hasattr(fake, name)]
    return type("Servicer", (base,), {name: create_method(getattr(fake, name)) for name in names})()
