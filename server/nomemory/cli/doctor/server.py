"""Checks of what a server says that it is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from importlib import metadata
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nomemory.cli.connection import Target, error_lines
from nomemory.cli.output import Check
from nomemory.client import channel
from nomemory.client.channel import channel_credentials
from nomemory.client.errors import NoMemoryError, from_rpc_error
from nomemory.client.sync import Client
from nomemory.v1 import ingest_service_pb2

_TIMEOUT_S: Final = 5.0
_NAMED_MAX: Final = 10
_SEE_LOG: Final = "The server's log tells more."


def check_version(server: str, client: str) -> Check:
    """Compare the versions of server and client. They share a contract if they differ in the last number only."""
    if server.split(".")[:2] == client.split(".")[:2]:
        return Check("Server's version", "ok", server)
    finding = f"{server}, and this client is {client}: some calls may fail"
    return Check("Server's version", "warn", finding, "Run the same version of nomemory here and there.")


def check_server(target: Target) -> Iterator[Check]:
    """Check that a server answers, that it fits this client, and that its log is sound and its indexes keep up."""
    health = _check_health(target)
    yield health
    if health.state != "ok":
        return
    with Client(target.address, timeout=_TIMEOUT_S, attempts=1, **target.identity) as client:
        try:
            info = client.server_info()
            yield check_version(info.version, metadata.version("nomemory-client"))
            if "ingest" in info.features:
                yield from _check_indexes(client.status(), by_meaning=bool(info.embedding_model))
        except NoMemoryError as error:
            yield Check("Server's status", "fail", next(error_lines(error, target.address)), _SEE_LOG)


def _check_health(target: Target) -> Check:
    with channel.open_sync(target.address, channel_credentials(target.identity), 1) as opened:
        try:
            health = health_pb2_grpc.HealthStub(opened).Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            code = from_rpc_error(error).code
            if code is grpc.StatusCode.UNAVAILABLE:
                start = f"Start one: nomemory serve --listen {target}"
                return Check("Server", "warn", f"none answers at {target}", start)
            return Check("Server", "fail", f"{target} answers {code.name}", "Is this the address of a NoMemory server?")
    if health.status != health_pb2.HealthCheckResponse.SERVING:
        return Check("Server", "fail", f"{target} is not serving", "Wait, or look into the server's log.")
    return Check("Server", "ok", f"{target} is serving")


def _check_indexes(status: ingest_service_pb2.GetIndexStatusResponse, *, by_meaning: bool) -> Iterator[Check]:
    yield _check_log(status.log)
    yield _check_index("Index of words", status.lexical)
    if by_meaning:
        yield _check_index("Index of meaning", status.vector)


def _check_log(log: ingest_service_pb2.LogStatus) -> Check:
    if log.fault:
        return Check("Server's log", "fail", f"its file is damaged: {log.fault}", "Restore a backup: nomemory restore")
    if log.damaged:
        sequences = ", ".join(map(str, log.damaged_sequences[:_NAMED_MAX]))
        finding = f"{log.damaged:,} messages are damaged, sequences {sequences}"
        return Check("Server's log", "fail", finding, "Restore a backup: nomemory restore")
    if not log.HasField("check_ts"):
        return Check("Server's log", "ok", f"{log.messages:,} messages; the first check for damage is under way")
    checked = log.check_ts.ToDatetime(tzinfo=UTC)
    return Check("Server's log", "ok", f"{log.messages:,} messages, sound when checked at {checked:%Y-%m-%d %H:%M} UTC")


def _check_index(name: str, index: ingest_service_pb2.IndexStatus) -> Check:
    if index.fault:
        return Check(name, "fail", f"retrying after {index.fault}", _SEE_LOG)
    if index.dead_letters:
        finding = f"{index.dead_letters:,} messages can never be indexed"
        return Check(name, "warn", finding, "nomemory status --user USER --json names them.")
    if index.pending:
        return Check(name, "ok", f"catching up, {index.pending:,} messages to go")
    return Check(name, "ok", "up to date")
