"""Tests that an unavailable Qdrant server is a fault in the status until it returns."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from qdrant_client import grpc as qdrant
from qdrant_client.grpc.collections_service_pb2_grpc import CollectionsServicer, add_CollectionsServicer_to_server
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import settings_without_embedder

if TYPE_CHECKING:
    from running_server import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]

WAIT_S = 30


class Collections(CollectionsServicer):
    """Reports every collection as existing, without aliases that name an owner."""

    def ListCollectionAliases(self, request: Any, context: Any) -> Any:  # noqa: ANN401, ARG002, N802 - the contract's names
        return qdrant.ListAliasesResponse()

    def UpdateAliases(self, request: Any, context: Any) -> Any:  # noqa: ANN401, ARG002, N802 - as above
        return qdrant.CollectionOperationResponse(result=True)

    def CollectionExists(self, request: Any, context: Any) -> Any:  # noqa: ANN401, ARG002, N802 - the contract's names
        return qdrant.CollectionExistsResponse(result=qdrant.CollectionExists(exists=True))


class Points(PointsServicer):
    """Accepts points without storing them."""

    def CreateFieldIndex(self, request: Any, context: Any) -> Any:  # noqa: ANN401, ARG002, N802 - as above
        return done()

    def Upsert(self, request: Any, context: Any) -> Any:  # noqa: ANN401, ARG002, N802 - as above
        return done()

    def Count(self, request: Any, context: Any) -> Any:  # noqa: ANN401, ARG002, N802 - as above
        return qdrant.CountResponse(result=qdrant.CountResult(count=0))


def done() -> Any:  # noqa: ANN401 - as above
    return qdrant.PointsOperationResponse(result=qdrant.UpdateResult(status=qdrant.UpdateStatus.Completed))


@contextmanager
def qdrant_at(port: int) -> Iterator[None]:
    """Run a fake Qdrant server."""
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
    add_CollectionsServicer_to_server(Collections(), server)  # type: ignore[no-untyped-call]
    add_PointsServicer_to_server(Points(), server)  # type: ignore[no-untyped-call]
    assert server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()


def until(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_unreachable_qdrant_server_is_reported_until_it_returns(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    settings = settings_without_embedder(tmp_path / "data", qdrant_url=f"grpc://127.0.0.1:{port}")
    with start(settings) as server:

        def faults() -> list[tuple[str, str]]:
            now = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
            assert bool(now.vector.error) == now.vector.HasField("error_ts")
            return [
                (i.Component.Name(fault.component), i.FaultKind.Name(fault.kind))
                for fault in now.faults
                if fault.start_ts.seconds
            ]

        def is_well() -> bool:
            now = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
            return not now.faults and not now.vector.error

        for _ in range(2):
            until(lambda: faults() == [("COMPONENT_QDRANT", "FAULT_KIND_UNREACHABLE")])
            server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message("u", "m", "hello")]))
            began_at = time.monotonic()
            with pytest.raises(grpc.RpcError) as error:
                server.query.SemanticSearch(
                    q.SemanticSearchRequest(user_id="u", query_embedding=q.Embedding(values=[1, 0, 0, 0])), timeout=20
                )
            assert refusal(error.value).reason == "INDEX_UNAVAILABLE"
            assert time.monotonic() - began_at < 10, "it does not wait for the unavailable server"
            with qdrant_at(port):
                until(is_well)
