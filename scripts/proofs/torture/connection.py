"""Connection of a caller to a server that restarts at changing addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import grpc

from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from proofs.finding import Finding
from proofs.replicas import Replicas
from proofs.server_under_test import ServerUnderTest

T = TypeVar("T")

_INTERNAL_ERRORS = (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
)
_REJECTIONS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.NOT_FOUND)
TIMEOUT_S = 5.0


class Connection:
    """A connection that follows the server over restarts.

    Attributes:
        findings: error statuses that no injected fault explains.
        refusals: number of failed calls.
    """

    def __init__(self, server: ServerUnderTest | Replicas) -> None:
        self._server = server
        self._channel: grpc.Channel | None = None
        self._target = ""
        self.findings: list[Finding] = []
        self.refusals = 0
        self.ingest: IngestServiceStub
        self.query: QueryServiceStub
        self._connect()

    def attempt_call(self, call: Callable[[], T]) -> T | grpc.StatusCode:
        """Make a call; return its reply, or the status of a failed call."""
        try:
            return call()
        except grpc.RpcError as error:
            self.refusals += 1
            code: grpc.StatusCode = error.code()
            if code in _INTERNAL_ERRORS and is_from_server(error):
                self.findings.append(Finding("status", f"{code.name}: {error.details()}"))
            if code is grpc.StatusCode.UNAVAILABLE:
                self._connect()
            return code

    def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            self._channel.close()

    def _connect(self) -> None:
        if self._channel is not None and self._target == self._server.target:
            return
        self.close()
        self._target, self._channel = self._server.target, self._server.open_channel()
        self.ingest, self.query = IngestServiceStub(self._channel), QueryServiceStub(self._channel)


def is_from_server(error: grpc.RpcError) -> bool:
    """Return whether the server produced the error; only errors of the server have a request id."""
    trailing: list[tuple[str, str]] = list(error.trailing_metadata() or ())  # type: ignore[arg-type]  # always text
    return "x-request-id" in dict(trailing)


def is_rejection(code: grpc.StatusCode) -> bool:
    """Return whether a status guarantees that the call had no effect."""
    return code in _REJECTIONS
