"""Checks of what a server says that it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC
from importlib import metadata
from types import MappingProxyType
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nomemory.cli.connection import Target, error_lines
from nomemory.cli.figures import embedding_model
from nomemory.cli.output import Check
from nomemory.client import channel
from nomemory.client.errors import NoMemoryError, from_rpc_error
from nomemory.client.options import channel_credentials
from nomemory.client.sync import Client
from nomemory.v1 import ingest_service_pb2, server_service_pb2

QUERY: Final = "query"
INGEST: Final = "ingest"
SERVICES: Final[Mapping[str, str]] = MappingProxyType(
    {
        QUERY: "nomemory.v1.QueryService",
        INGEST: "nomemory.v1.IngestService",
        "recall": "nomemory.v1.RecallService",
    }
)
"""The service that a server serves if it has a feature."""
_TIMEOUT_S: Final = 5.0
_NAMED_MAX: Final = 10
_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_SEE_LOG: Final = "The server's log tells more."
_WHOLE: Final = ""  # what grpc.health.v1 calls the server as a whole


def check_info(info: server_service_pb2.GetServerInfoResponse) -> Iterator[Check]:
    """Check whether a server fits this client, and name what it can do."""
    yield check_version(info.version, metadata.version("nomemory-client"))
    yield Check("Server's features", "ok", ", ".join(info.features) or "none")
    if QUERY in info.features:
        yield _check_embedder(info)


def check_version(server: str, client: str) -> Check:
    """Compare the versions of server and client. They share a contract if they differ in the last number only."""
    if _contract(server) == _contract(client):
        return Check("Server's version", "ok", server)
    finding = f"{server}, and this client is {client}: some calls may fail"
    return Check("Server's version", "warn", finding, "Run the same version of nomemory here and there.")


def _contract(version: str) -> list[str]:
    return version.split(".")[:2]


def _check_embedder(info: server_service_pb2.GetServerInfoResponse) -> Check:
    if model := embedding_model(info):
        return Check("Server's embedder", "ok", model)
    finding = "none: it searches for no text's meaning"
    return Check("Server's embedder", "warn", finding, "Set NOMEMORY_EMBEDDER where the server runs.")


def check_server(target: Target) -> Iterator[Check]:
    """Check that a server answers, that it fits this client and serves what it says, and that its indexes keep up."""
    health = _check_health(target, "Server", {_WHOLE: str(target)})
    yield health
    if health.state != "ok":
        return
    with Client(target.address, timeout=_TIMEOUT_S, attempts=1, **target.identity) as client:
        try:
            info = client.server_info()
        except NoMemoryError as error:
            yield _no_info(target, error)
            return
        yield from check_info(info)
        yield _check_health(target, "Services", _services(info))
        if INGEST in info.features:
            yield from _check_indexes(target, client, info)


def _services(info: server_service_pb2.GetServerInfoResponse) -> dict[str, str]:
    return {name: name for feature, name in SERVICES.items() if feature in info.features}


def _no_info(target: Target, error: NoMemoryError) -> Check:
    if error.code is grpc.StatusCode.UNIMPLEMENTED:
        finding = "the server is older than 0.2.0, and its contract is another one"
        return Check("Server's version", "fail", finding, "Run the same version of nomemory here and there.")
    return Check("Server's version", "fail", next(error_lines(error, target.address)), _SEE_LOG)


def _check_health(target: Target, name: str, services: Mapping[str, str]) -> Check:
    """Ask for the health of services, each given with what people call it."""
    with channel.open_sync(target.address, channel_credentials(target.identity), 1) as opened:
        check = health_pb2_grpc.HealthStub(opened).Check
        try:
            states = {each: check(health_pb2.HealthCheckRequest(service=each), timeout=_TIMEOUT_S) for each in services}
        except grpc.RpcError as error:
            return _no_health(name, target, error)
    down = [services[each] for each, state in states.items() if state.status != _SERVING]
    if down:
        return Check(name, "fail", f"not serving: {', '.join(down)}", "Wait, or look into the server's log.")
    return Check(name, "ok", f"serving: {', '.join(services.values())}")


def _no_health(name: str, target: Target, error: grpc.RpcError) -> Check:
    code = from_rpc_error(error).code
    if code is grpc.StatusCode.UNAVAILABLE:
        return Check(name, "warn", f"none answers at {target}", f"Start one: nomemory serve --listen {target}")
    return Check(name, "fail", f"{target} answers {code.name}", "Is this the address of a NoMemory server?")


def _check_indexes(target: Target, client: Client, info: server_service_pb2.GetServerInfoResponse) -> Iterator[Check]:
    try:
        status = client.status()
    except NoMemoryError as error:
        yield Check("Indexes", "fail", next(error_lines(error, target.address)), _SEE_LOG)
        return
    yield _check_log(status.log)
    yield _check_index("Index of words", status.lexical)
    if info.embedding_model:
        yield _check_index("Index of meaning", status.vector)


def _check_log(log: ingest_service_pb2.LogStatus) -> Check:
    if log.fault:
        return Check("Server's log", "fail", f"its file is damaged: {log.fault}", "Restore a backup: nomemory restore")
    if log.damaged:
        sequences = ", ".join(map(str, log.damaged_sequences[:_NAMED_MAX]))
        finding = f"{log.damaged:,} messages are damaged, sequences {sequences}"
        return Check("Server's log", "fail", finding, "Restore a backup: nomemory restore")
    if not log.HasField("checked_ts"):
        return Check("Server's log", "ok", f"{log.messages:,} messages; the first check for damage is under way")
    checked = log.checked_ts.ToDatetime(tzinfo=UTC)
    return Check("Server's log", "ok", f"{log.messages:,} messages, sound when checked at {checked:%Y-%m-%d %H:%M} UTC")


def _check_index(name: str, index: ingest_service_pb2.IndexStatus) -> Check:
    if index.fault:
        return Check(name, "fail", f"retrying after {index.fault}", _SEE_LOG)
    if index.notice and index.pending:
        return Check(name, "warn", f"{index.notice}; {index.pending:,} messages to go", "Wait until it has caught up.")
    if index.parked:
        finding = f"{index.parked:,} messages can never be indexed"
        return Check(name, "warn", finding, "nomemory status --user USER --json names them.")
    if index.pending:
        return Check(name, "ok", f"catching up, {index.pending:,} messages to go")
    return Check(name, "ok", "up to date")
