"""Tests for the HTTP server: draining, disconnects, limits and unexpected errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from nomemory.server.api.call import CallContext
from nomemory.server.api.health import ServerHealth
from nomemory.server.api.http.application import build_api_application
from nomemory.server.api.http.server import HttpServer
from nomemory.server.api.identity.access import PUBLIC, AccessControl
from nomemory.server.api.identity.authenticator import LocalAuthenticator
from nomemory.server.api.limits import RequestLimits
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.api.service import ServedMethod
from nomemory.server.runtime.listen_address import ListenAddress
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import query_service_pb2 as q

LIST = "/v1/users/ann/messages"
EXPORT = "/v1/users/ann/messages:export"
SEARCH = "/v1/messages/lexical_search"


@dataclass
class Queries:
    """A QueryService with a ListMessages that waits for an event, and an export that fails after two replies."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    running: int = 0
    full_name: str = "nomemory.v1.QueryService"

    def methods(self) -> Mapping[str, ServedMethod]:
        methods = q.DESCRIPTOR.services_by_name["QueryService"].methods
        unary, stream = ServedMethod(PUBLIC, self.wait), ServedMethod(PUBLIC, self.export)
        return {method.name: stream if method.server_streaming else unary for method in methods}

    async def wait(self, _request: object, _context: CallContext) -> bytes:
        self.running += 1
        try:
            await self.go_on.wait()
        finally:
            self.running -= 1
        return b""

    async def export(self, _request: object, _context: CallContext) -> AsyncIterator[q.ExportMessagesResponse]:
        for _ in range(2):
            yield q.ExportMessagesResponse()
        raise RuntimeError("hush")


@asynccontextmanager
async def serving(
    queries: Queries, limits: RequestLimits | None = None
) -> AsyncIterator[tuple[HttpServer, httpx.AsyncClient]]:
    """Serve until the context exits; return the server and an HTTP client."""
    settings = Settings.from_environment()
    access = AccessControl(LocalAuthenticator())
    pipeline = Pipeline([queries], access, settings.timing.default_deadline_s, limits=limits)
    health = ServerHealth(pipeline.service_names)
    server = HttpServer(build_api_application(pipeline, health, settings, None), None, 10)
    bound = await server.start(ListenAddress("127.0.0.1", 0))
    async with httpx.AsyncClient(base_url=f"http://{bound}", timeout=30) as client:
        yield server, client
        await server.stop(0.1)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the client, not the test, makes it true
            await asyncio.sleep(0.01)


async def test_call_in_flight_completes_during_drain() -> None:
    queries = Queries()
    async with serving(queries) as (server, client):
        call = asyncio.ensure_future(client.get(LIST))
        await until(lambda: queries.running)
        stopping = asyncio.ensure_future(server.stop(20))
        await asyncio.sleep(0.3)
        assert not stopping.done()
        queries.go_on.set()
        assert (await call).status_code == 200
        await stopping


async def test_call_is_cancelled_after_the_grace_period() -> None:
    queries = Queries()
    async with serving(queries) as (server, client):
        call = asyncio.ensure_future(client.get(LIST))
        await until(lambda: queries.running)
        await server.stop(0.1)
        await asyncio.wait([call])
        await until(lambda: not queries.running)


async def test_call_is_cancelled_when_the_client_disconnects() -> None:
    queries = Queries()
    async with serving(queries) as (_, client):
        for verb, path, body in (("GET", LIST, None), ("POST", SEARCH, {"userId": "ann"})):
            call = asyncio.ensure_future(client.request(verb, path, json=body))
            await until(lambda: queries.running)
            call.cancel()
            await until(lambda: not queries.running)


async def test_large_requests_above_the_memory_limit_are_rejected() -> None:
    queries = Queries()
    async with serving(queries, RequestLimits(request_bytes=150_000)) as (_, client):
        large = {"userId": "ann", "queryText": "x" * 100_000}
        call = asyncio.ensure_future(client.post(SEARCH, json=large))
        await until(lambda: queries.running)
        refused = await client.post(SEARCH, json=large)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        queries.go_on.set()
        assert (await client.post(SEARCH, json={"userId": "ann"})).status_code == 200
        assert (await call).status_code == 200
        assert (await client.post(SEARCH, json=large)).status_code == 200


async def test_unexpected_error_reveals_no_details() -> None:
    async with serving(Queries()) as (_, client):
        stream = await client.get(EXPORT)
        assert stream.text.count("data: {}\n\n") == 2
        assert '"INTERNAL"' in stream.text.split("event: error")[1]
        assert "hush" not in stream.text


async def test_health_reports_not_serving_before_the_start() -> None:
    async with serving(Queries()) as (_, client):
        health = await client.get("/healthz")
        assert (health.status_code, health.json()) == (503, {"status": "NOT_SERVING"})
