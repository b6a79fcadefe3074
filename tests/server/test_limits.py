"""Tests for the limits of a server: calls in flight, request memory, connections, streams, and unread responses."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from server.raw_peer import LIST, RawPeer, peers, run

from chat_messages import new_message
from nomemory.server.api.call import CallContext
from nomemory.server.api.grpc import server as grpc_server
from nomemory.server.api.grpc.server import GrpcServer
from nomemory.server.api.health import ServerHealth
from nomemory.server.api.identity.access import AccessControl, RequiredScopes
from nomemory.server.api.identity.authenticator import LocalAuthenticator
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.limits import RequestLimits
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.api.service import ServedMethod, Service
from nomemory.server.runtime.listen_address import ListenAddress
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from rpc_errors import refusal

EXPORT = "/nomemory.v1.QueryService/ExportMessages"
HEALTH = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
BATCH_BYTES = 100_000
WAIT_S = 20
OK, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED = "0", "8", "4"


@dataclass
class Queries:
    """A QueryService with a ListMessages that waits for an event, and an endless export."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    running: int = 0
    batches: int = 0
    full_name: str = "nomemory.v1.QueryService"

    def methods(self) -> Mapping[str, ServedMethod]:
        required, methods = RequiredScopes(frozenset(Scope)), q.DESCRIPTOR.services_by_name["QueryService"].methods
        unary, stream = ServedMethod(required, self.wait), ServedMethod(required, self.export)
        return {method.name: stream if method.server_streaming else unary for method in methods}

    async def wait(self, _request: object, _context: CallContext) -> bytes:
        self.running += 1
        await self.go_on.wait()
        return b""

    async def export(self, _request: object, _context: CallContext) -> AsyncIterator[bytes]:
        while True:
            self.batches += 1
            yield q.ExportMessagesResponse(next_cursor="x" * BATCH_BYTES).SerializeToString()


@dataclass
class Ingest:
    """An IngestService whose methods wait for an event."""

    queries: Queries
    full_name: str = "nomemory.v1.IngestService"

    def methods(self) -> Mapping[str, ServedMethod]:
        methods = i.DESCRIPTOR.services_by_name["IngestService"].methods
        writes = ServedMethod(RequiredScopes(frozenset({Scope.INGEST})), self.queries.wait)
        return {method.name: writes for method in methods}


@dataclass
class Limited:
    """A running server."""

    target: str
    queries: Queries

    async def calls_run(self, count: int) -> None:
        """Wait until a number of calls have reached their handlers."""
        async with asyncio.timeout(WAIT_S):
            while self.queries.running < count:  # noqa: ASYNC110 - a test has no other sign
                await asyncio.sleep(0.01)


@asynccontextmanager
async def limited(limits: RequestLimits | None = None, **settings: float) -> AsyncIterator[Limited]:
    configured = Settings.from_environment(**{"drain_timeout_s": 0.0} | settings)
    queries = Queries()
    services: list[Service] = [queries, Ingest(queries)]
    access = AccessControl(LocalAuthenticator())
    pipeline = Pipeline(services, access, configured.timing.default_deadline_s, limits=limits)
    health = ServerHealth(pipeline.service_names)
    server = GrpcServer(pipeline, health, configured)
    bound = await server.start(ListenAddress("127.0.0.1", 0))
    await health.set_serving(is_serving=True)
    try:
        yield Limited(str(bound), queries)
    finally:
        await server.stop(0.0)


async def happens(opened: Sequence[RawPeer], until: Callable[[], bool]) -> bool:
    """Let clients send and receive until a condition holds; return False at the timeout."""
    return await asyncio.to_thread(run, opened, until, WAIT_S)


def writes_of(size: int) -> i.WriteMessagesRequest:
    return i.WriteMessagesRequest(messages=[new_message("u", f"m{n}", "x" * 100_000) for n in range(size // 100_000)])


async def test_calls_above_the_limit_are_rejected_with_retry_info() -> None:
    async with limited(RequestLimits(calls=2)) as server, grpc.aio.insecure_channel(server.target) as channel:
        stub = QueryServiceStub(channel)
        running = [asyncio.ensure_future(stub.ListMessages(q.ListMessagesRequest())) for _ in range(2)]
        await server.calls_run(2)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.ListMessages(q.ListMessagesRequest())
        server.queries.go_on.set()
        await asyncio.gather(*running)
        await stub.ListMessages(q.ListMessagesRequest())
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert refused.retry_s


async def test_large_requests_above_the_memory_limit_are_rejected_and_small_ones_accepted() -> None:
    async with (
        limited(RequestLimits(request_bytes=1_000_000)) as server,
        grpc.aio.insecure_channel(server.target) as channel,
    ):
        write = IngestServiceStub(channel).WriteMessages
        running = asyncio.ensure_future(write(writes_of(900_000)))
        await server.calls_run(1)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await write(writes_of(200_000))
        small = asyncio.ensure_future(write(i.WriteMessagesRequest(messages=[new_message("u", "m", "x")])))
        await server.calls_run(2)
        server.queries.go_on.set()
        await asyncio.gather(running, small)
        await write(writes_of(900_000))
    assert (refusal(error.value).reason, bool(refusal(error.value).retry_s)) == ("OVERLOADED", True)


async def test_single_large_request_is_read_above_the_memory_limit() -> None:
    async with (
        limited(RequestLimits(request_bytes=1000)) as server,
        grpc.aio.insecure_channel(server.target) as channel,
    ):
        server.queries.go_on.set()
        await IngestServiceStub(channel).WriteMessages(writes_of(14_000_000))


async def test_call_without_a_request_is_rejected() -> None:
    async with limited() as server, grpc.aio.insecure_channel(server.target) as channel:
        call: Any = channel.stream_unary(LIST)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call(iter(()), timeout=WAIT_S)
    assert refusal(error.value).reason == "MALFORMED_REQUEST"


async def test_incomplete_request_is_rejected_at_the_deadline() -> None:
    async with limited(default_deadline_s=0.5) as server:
        with peers(server.target, 2) as opened:
            calls = [peer.call(LIST, bytes(15_000_000), declared=15_000_001) for peer in opened]
            assert await happens(opened, lambda: all(call.status == DEADLINE_EXCEEDED for call in calls))


async def test_a_rejected_request_is_freed_without_garbage_collection() -> None:
    async with limited(default_deadline_s=0.5) as server:
        gc.collect()
        gc.disable()
        try:
            with peers(server.target, 4) as opened:
                calls = [peer.call(LIST, bytes(1_000_000), declared=1_000_001) for peer in opened]
                assert await happens(opened, lambda: all(call.is_over for call in calls))
            async with asyncio.timeout(WAIT_S):
                while any(type(thing).__name__ == "_ServicerContext" for thing in gc.get_objects()):  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.1)
        finally:
            gc.enable()


async def test_unread_export_stops_after_a_few_batches() -> None:
    async with limited() as server:
        with peers(server.target, 1, window=0) as (peer,):
            call = peer.call(EXPORT, b"")
            assert await happens([peer], lambda: call.has_headers)
            await asyncio.sleep(0.5)
            assert server.queries.batches < 10


async def test_health_watches_above_the_limit_are_rejected() -> None:
    async with limited(RequestLimits(watches=2)) as server:
        with peers(server.target, 1) as (peer,):
            watches = [peer.call(WATCH, b"") for _ in range(2)]
            assert await happens([peer], lambda: all(watch.received for watch in watches))
            refused = peer.call(WATCH, b"")
            assert await happens([peer], lambda: refused.status == RESOURCE_EXHAUSTED)
            check = peer.call(HEALTH, b"")
            assert await happens([peer], lambda: check.status == OK)


async def test_incomplete_unauthenticated_requests_are_limited() -> None:
    async with limited(RequestLimits(public_reads=2)) as server:
        with peers(server.target, 1) as (peer,):
            for _ in range(2):
                peer.call(HEALTH, b"", declared=1)
            await asyncio.to_thread(run, [peer], lambda: False, 0.5)
            refused = peer.call(HEALTH, b"")
            assert await happens([peer], lambda: refused.status == RESOURCE_EXHAUSTED)


async def test_calls_in_flight_per_connection_are_limited() -> None:
    async with limited() as server:
        with peers(server.target, 1) as (peer,):
            assert await happens([peer], lambda: peer.allowed_streams() == grpc_server.MAX_STREAMS)


async def test_idle_connections_are_closed_and_connections_with_calls_stay_open() -> None:
    async with limited(connection_idle_timeout_s=1.0) as server:
        with peers(server.target, 3) as (watching, *silent):
            watch = watching.call(WATCH, b"")
            assert await happens([watching, *silent], lambda: all(peer.is_closed for peer in silent))
            assert watch.received
            assert not watching.is_closed


async def test_connections_above_the_limit_are_closed() -> None:
    async with limited(max_connections=5) as server:
        server.queries.go_on.set()
        with peers(server.target, 1) as (early,):
            listed = early.call(LIST, b"")
            assert await happens([early], lambda: listed.status == OK)
            with peers(server.target, 10) as opened:
                assert await happens(opened, lambda: sum(peer.is_closed for peer in opened) >= 6)
                again = early.call(LIST, b"")
                assert await happens([early], lambda: again.status == OK)


async def test_client_that_reads_no_response_is_disconnected_at_the_maximum_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_server, "_MAX_AGE_S", 1)
    monkeypatch.setattr(grpc_server, "_MAX_AGE_GRACE_S", 1)
    async with limited() as server:
        with peers(server.target, 1, window=0) as (peer,):
            call = peer.call(EXPORT, b"")
            assert await happens([peer], lambda: call.has_headers)
            async with asyncio.timeout(WAIT_S):
                while not has_ended(peer):  # noqa: ASYNC110 - a test has no other sign
                    await asyncio.sleep(0.1)


def has_ended(peer: RawPeer) -> bool:
    """Return whether the server has closed the connection, not only announced it."""
    try:
        return peer.socket.recv(1_000_000) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


async def test_client_that_pings_too_often_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "_MIN_CLIENT_PING_INTERVAL_S", 1)
    async with limited() as server:
        with peers(server.target, 2) as (patient, hasty):
            for _ in range(4):
                patient.ping()
                await asyncio.to_thread(run, [patient], lambda: patient.is_closed, 1.3)
            assert not patient.is_closed
            for _ in range(5):
                hasty.ping()
            assert await happens([hasty], lambda: hasty.is_closed)
