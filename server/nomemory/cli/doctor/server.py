"""Checks of a running server: health, version, message log and indexes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from importlib import metadata
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nomemory.cli.connection import Target, format_error_lines
from nomemory.cli.output import CheckResult
from nomemory.cli.tables import describe_fault
from nomemory.client import channel
from nomemory.client.channel import create_channel_credentials
from nomemory.client.errors import NoMemoryError, convert_rpc_error
from nomemory.client.sync import Client
from nomemory.v1 import ingest_service_pb2

_TIMEOUT_S: Final = 5.0
_MAX_LISTED: Final = 10
_SEE_LOG: Final = "See the server's log for details."


def check_version(server: str, client: str) -> CheckResult:
    """Compare the versions of server and client. Versions are compatible if their major and minor numbers are equal."""
    if server.split(".")[:2] == client.split(".")[:2]:
        return CheckResult("Server version", "ok", server)
    finding = f"{server}, but this client is {client}: some calls may fail"
    return CheckResult("Server version", "warn", finding, "Install the same version of nomemory on both sides.")


def check_server(target: Target) -> Iterator[CheckResult]:
    """Check that a server responds and is compatible, and check its message log and indexes."""
    health = _check_health(target)
    yield health
    if health.state != "ok":
        return
    with Client(target.address, timeout=_TIMEOUT_S, attempts=1, **target.identity) as client:
        try:
            info = client.server_info()
            yield check_version(info.version, metadata.version("nomemory-client"))
            if "ingest" in info.features:
                yield from _check_indexes(client.status(), has_vectors=bool(info.embedding_model))
        except NoMemoryError as error:
            yield CheckResult("Server status", "fail", next(format_error_lines(error, target.address)), _SEE_LOG)


def _check_health(target: Target) -> CheckResult:
    with channel.open_blocking_channel(target.address, create_channel_credentials(target.identity), 1) as opened:
        try:
            health = health_pb2_grpc.HealthStub(opened).Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            code = convert_rpc_error(error).code
            if code is grpc.StatusCode.UNAVAILABLE:
                start = f"Start one: nomemory serve --listen {target}"
                return CheckResult("Server", "warn", f"no server responds at {target}", start)
            return CheckResult(
                "Server", "fail", f"{target} responds with {code.name}", "Is this the address of a NoMemory server?"
            )
    if health.status != health_pb2.HealthCheckResponse.SERVING:
        return CheckResult("Server", "fail", f"{target} is not serving", "Wait, or see the server's log.")
    return CheckResult("Server", "ok", f"{target} is serving")


def _check_indexes(status: ingest_service_pb2.GetIndexStatusResponse, *, has_vectors: bool) -> Iterator[CheckResult]:
    yield _check_message_log(status.log)
    yield _check_index("Lexical index", status.lexical)
    if has_vectors:
        yield _check_index("Vector index", status.vector)
    for fault in status.faults:
        yield CheckResult("Server fault", "fail", describe_fault(fault), _SEE_LOG)


def _check_message_log(log: ingest_service_pb2.LogStatus) -> CheckResult:
    if log.error:
        return CheckResult(
            "Server message log", "fail", f"the file is damaged: {log.error}", "Restore a backup: nomemory restore"
        )
    if log.damaged:
        sequences = ", ".join(map(str, log.damaged_sequences[:_MAX_LISTED]))
        finding = f"{log.damaged:,} messages are damaged, sequences {sequences}"
        return CheckResult("Server message log", "fail", finding, "Restore a backup: nomemory restore")
    if not log.HasField("check_ts"):
        return CheckResult(
            "Server message log", "ok", f"{log.messages:,} messages; the first integrity check is in progress"
        )
    checked = log.check_ts.ToDatetime(tzinfo=UTC)
    return CheckResult("Server message log", "ok", f"{log.messages:,} messages, intact at {checked:%Y-%m-%d %H:%M} UTC")


def _check_index(name: str, index: ingest_service_pb2.IndexStatus) -> CheckResult:
    if index.error:
        return CheckResult(name, "fail", f"retrying after {index.error}", _SEE_LOG)
    if index.dead_letters:
        finding = f"{index.dead_letters:,} messages cannot be indexed"
        return CheckResult(name, "warn", finding, "List them: nomemory status --user USER --json.")
    if index.pending:
        return CheckResult(name, "ok", f"{index.pending:,} messages are waiting to be indexed")
    return CheckResult(name, "ok", "up to date")
