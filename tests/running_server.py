"""Run a server within the test process."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import uvloop

from nomemory.server.runtime.app import running_server
from nomemory.server.runtime.listen_address import ListenAddresses
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc


@dataclass(frozen=True)
class Server:
    """A running server and stubs for it.

    `http` and `metrics` are the URLs of its HTTP listeners, or empty if they are disabled. If there are several
    replicas, `target` is the first of them and `replicas` lists all.
    """

    target: str
    http: str
    settings: Settings
    query: query_service_pb2_grpc.QueryServiceStub
    ingest: ingest_service_pb2_grpc.IngestServiceStub
    metrics: str = ""
    replicas: tuple[str, ...] = ()


def settings_without_embedder(data: Path, **changes: object) -> Settings:
    """Return settings for a server without an embedder and with caller vectors of dimension 4."""
    settings = {"listen": "127.0.0.1:0", "embedder": "none", "embedding_dimension": 4, "drain_timeout_s": 0.0}
    return Settings.from_environment(**{"data": data, **settings, **changes})


@contextmanager
def started(settings: Settings) -> Iterator[Server]:
    """Run a server in a separate thread until the context exits."""
    bound: Future[ListenAddresses] = Future()
    done = threading.Event()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with running_server(settings) as addresses:
            threading.Thread(target=lambda: (done.wait(), loop.call_soon_threadsafe(stop.set)), daemon=True).start()
            bound.set_result(addresses)
            await stop.wait()

    def run() -> None:
        try:
            uvloop.run(main())  # as `nomemory serve` does
        except BaseException as error:
            if bound.done():
                raise
            bound.set_exception(error)

    thread = threading.Thread(target=run, name="server")
    thread.start()
    try:
        target, http, metrics = str(bound.result(30)), bound.result().http, bound.result().metrics
        with grpc.insecure_channel(target) as channel:
            yield Server(
                target,
                f"http://{http}" if http else "",
                settings,
                query_service_pb2_grpc.QueryServiceStub(channel),
                ingest_service_pb2_grpc.IngestServiceStub(channel),
                f"http://{metrics}" if metrics else "",
            )
    finally:
        done.set()
        thread.join(30)


def address_in(line: str) -> str:
    """Return the address in the line that a server prints when it is ready."""
    match = re.search(r"\S+:[0-9]+", line)
    assert match, f"no address in {line!r}"
    return match.group()
