"""What stands in for a Qdrant server: it speaks its protocol, and keeps points in memory, in this process.

The client's own local mode keeps and finds the points. There is one copy of them, and no shards: keys are ignored.
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


def described(payload_schema: dict[str, Any]) -> Any:  # noqa: ANN401 - of the engine's own kinds
    """Return the description of a collection whose payload is indexed so."""
    config = qdrant.CollectionConfig(
        hnsw_config=qdrant.HnswConfigDiff(m=0, ef_construct=100, full_scan_threshold=10_000),
        optimizer_config=qdrant.OptimizersConfigDiff(
            deleted_threshold=0.2, vacuum_min_vector_number=1000, default_segment_number=0, flush_interval_sec=5
        ),
        wal_config=qdrant.WalConfigDiff(wal_capacity_mb=32, wal_segments_ahead=0),
    )
    info = qdrant.CollectionInfo(status=qdrant.CollectionStatus.Green, config=config, payload_schema=payload_schema)
    return qdrant.GetCollectionInfoResponse(result=info)


class StandIn:
    """Answers calls. Any: the requests and answers are of the engine's own kinds.

    Attributes:
        points: what it keeps, by the client's local mode; for tests to look at.
        port: where it listens on 127.0.0.1.
        unindexed: how many points its payload indexes say that they lack.
    """

    def __init__(self) -> None:
        self.points = QdrantClient(":memory:")
        self.port = 0
        self.unindexed = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"grpc://127.0.0.1:{self.port}"

    def CollectionExists(self, request: Any) -> Any:  # noqa: ANN401, N802 - the contract's names, here and below
        """Tell whether there is a collection."""
        exists = self.points.collection_exists(request.collection_name)
        return qdrant.CollectionExistsResponse(result=qdrant.CollectionExists(exists=exists))

    def Create(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Make a collection."""
        size = request.vectors_config.params.size
        if not self.points.collection_exists(request.collection_name):
            config = models.VectorParams(size=size, distance=models.Distance.COSINE)
            self.points.create_collection(request.collection_name, config)
        return _CHANGED

    def Delete(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Delete a collection, or points: both services call it so."""
        if isinstance(request, qdrant.DeleteCollection):
            self.points.delete_collection(request.collection_name)
            return _CHANGED
        self.points.delete(request.collection_name, GrpcToRest.convert_points_selector(request.points))
        return _DONE

    def UpdateAliases(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Make and delete aliases of collections."""
        operations = list(map(GrpcToRest.convert_alias_operations, request.actions))
        self.points.update_collection_aliases(change_aliases_operations=operations)
        return _CHANGED

    def ListCollectionAliases(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Return the aliases of a collection."""
        found = self.points.get_collection_aliases(request.collection_name).aliases
        return qdrant.ListAliasesResponse(aliases=list(map(RestToGrpc.convert_alias_description, found)))

    def CollectionClusterInfo(self, _request: Any) -> Any:  # noqa: ANN401, N802
        """Tell that there are no shards."""
        return qdrant.CollectionClusterInfoResponse()

    def CreateShardKey(self, _request: Any) -> Any:  # noqa: ANN401, N802
        """Do nothing."""
        return qdrant.CreateShardKeyResponse(result=True)

    def CreateFieldIndex(self, _request: Any) -> Any:  # noqa: ANN401, N802
        """Do nothing."""
        return _DONE

    def Get(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Describe a collection, or return points: both services call it so."""
        if isinstance(request, qdrant.GetCollectionInfoRequest):
            points = self.points.count(request.collection_name).count
            known = points - self.unindexed
            indexed = qdrant.PayloadSchemaInfo(data_type=qdrant.PayloadSchemaType.Keyword, points=known)
            return described(dict.fromkeys(_INDEXED, indexed))
        ids = [GrpcToRest.convert_point_id(item) for item in request.ids]
        found = self.points.retrieve(request.collection_name, ids, with_payload=True, with_vectors=True)
        return qdrant.GetResponse(result=list(map(_retrieved, found)))

    def Count(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Count all points."""
        count = self.points.count(request.collection_name).count
        return qdrant.CountResponse(result=qdrant.CountResult(count=count))

    def Upsert(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Store points."""
        self.points.upsert(request.collection_name, list(map(GrpcToRest.convert_point_struct, request.points)))
        return _DONE

    def UpdateBatch(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Store points, some lists of them at once."""
        for operation in request.operations:
            points = list(map(GrpcToRest.convert_point_struct, operation.upsert.points))
            self.points.upsert(request.collection_name, points)
        return qdrant.UpdateBatchResponse(result=[qdrant.UpdateResult(status=qdrant.UpdateStatus.Completed)])

    def Query(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Return the nearest points."""
        found = self.points.query_points(
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
            for point in found.points
        ]
        return qdrant.QueryResponse(result=scored)

    def Scroll(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Return points, page by page."""
        found, offset = self.points.scroll(
            request.collection_name,
            scroll_filter=GrpcToRest.convert_filter(request.filter),
            limit=request.limit,
            offset=GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None,
            with_vectors=True,
        )
        after = RestToGrpc.convert_extended_point_id(str(offset)) if offset is not None else None
        return qdrant.ScrollResponse(result=list(map(_retrieved, found)), next_page_offset=after)

    def Facet(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Return the values of a field."""
        found = self.points.facet(request.collection_name, request.key, limit=100_000)
        return qdrant.FacetResponse(hits=list(map(RestToGrpc.convert_facet_value_hit, found.hits)))


@contextmanager
def qdrant_stand_in() -> Iterator[StandIn]:
    """Run one until the context is left."""
    stand_in, one_at_a_time = StandIn(), threading.Lock()
    server = grpc.server(ThreadPoolExecutor(8))
    add_CollectionsServicer_to_server(_servicer(CollectionsServicer, stand_in, one_at_a_time), server)  # type: ignore[no-untyped-call]
    add_PointsServicer_to_server(_servicer(PointsServicer, stand_in, one_at_a_time), server)  # type: ignore[no-untyped-call]
    stand_in.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield stand_in
    finally:
        server.stop(0).wait()


def _retrieved(record: models.Record) -> qdrant.RetrievedPoint:
    vector: Any = record.vector
    data = qdrant.VectorOutput(dense=qdrant.DenseVector(data=vector))
    return qdrant.RetrievedPoint(
        id=RestToGrpc.convert_extended_point_id(record.id),
        payload=RestToGrpc.convert_payload(record.payload or {}),
        vectors=qdrant.VectorsOutput(vector=data),
    )


def _servicer(base: type, stand_in: StandIn, one_at_a_time: threading.Lock) -> Any:  # noqa: ANN401
    """Make a servicer with the methods of a service that the stand-in has."""

    def method(answer: Callable[[Any], Any]) -> Callable[[object, Any, object], Any]:
        def locked(_self: object, request: Any, _context: object) -> Any:  # noqa: ANN401
            with one_at_a_time:
                return answer(request)

        return locked

    names = [name for name in vars(base) if name[0].isupper() and hasattr(stand_in, name)]
    return type("Servicer", (base,), {name: method(getattr(stand_in, name)) for name in names})()
