"""Checks of a running server, from outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nomemory.cli.check import Check
from nomemory.cli.failure import lines
from nomemory.cli.target import Target
from nomemory.client import channel
from nomemory.client.errors import NoMemoryError, from_rpc_error
from nomemory.client.identity import channel_credentials
from nomemory.client.sync import Client
from nomemory.v1 import ingest_service_pb2

_TIMEOUT_S: Final = 5.0


def check_server(target: Target) -> Iterator[Check]:
    """Check that a server answers, serves the contract, and that its indexes keep up."""
    health = _check_health(target)
    yield health
    if health.state != "ok":
        return
    try:
        with Client(target.address, timeout=_TIMEOUT_S, attempts=1, **target.identity) as client:
            status = client.status()
    except NoMemoryError as error:
        yield Check("Indexes", "fail", next(lines(error, target.address)), "The server's log tells more.")
        return
    yield _check_index("Index of words", status.lexical)
    if status.embedder.kind == "none":
        yield Check("Index of meaning", "warn", "the server has no embedder", "Set NOMEMORY_EMBEDDER.")
    else:
        yield _check_index("Index of meaning", status.vector)


def _check_health(target: Target) -> Check:
    with channel.open_sync(target.address, channel_credentials(target.identity), 1) as opened:
        check = health_pb2_grpc.HealthStub(opened).Check
        try:
            states = {name: check(health_pb2.HealthCheckRequest(service=name), timeout=_TIMEOUT_S) for name in _NAMES}
        except grpc.RpcError as error:
            return _no_health(target, error)
    down = [
        name or "server" for name, state in states.items() if state.status != health_pb2.HealthCheckResponse.SERVING
    ]
    if down:
        return Check("Server", "fail", f"{target} is not serving: {', '.join(down)}", "Wait, or look into its log.")
    return Check("Server", "ok", f"{target} serves {', '.join(channel.SERVICES)}")


_NAMES: Final = ("", *channel.SERVICES)


def _no_health(target: Target, error: grpc.RpcError) -> Check:
    code = from_rpc_error(error).code
    if code is grpc.StatusCode.UNAVAILABLE:
        return Check("Server", "warn", f"none answers at {target}", f"Start one: nomemory serve --listen {target}")
    return Check("Server", "fail", f"{target} answers {code.name}", "Is this the address of a NoMemory server?")


def _check_index(name: str, index: ingest_service_pb2.IndexStatus) -> Check:
    if index.fault:
        return Check(name, "fail", f"retrying after {index.fault}", "The server's log tells more.")
    if index.parked:
        finding = f"{index.parked:,} messages can never be indexed"
        return Check(name, "warn", finding, "nomemory status --user USER --json names them.")
    if index.pending:
        return Check(name, "ok", f"catching up, {index.pending:,} messages to go")
    return Check(name, "ok", "up to date")
