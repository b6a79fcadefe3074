"""The exception that a client raises if a call fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

REQUEST_ID = "x-request-id"

_FailedCall = grpc.Call | grpc.aio.AioRpcError
_Detail = TypeVar("_Detail", bound=Message)


@dataclass(frozen=True, slots=True)
class Violation:
    """A field of a request that the server rejected, and the reason."""

    field: str
    description: str


class NoMemoryError(Exception):
    """A call to the server failed.

    Attributes:
        reason: the name of a nomemory.v1.ErrorReason; empty if no NoMemory server returned the error.
        violations: the fields of the request that the server rejected.
        metadata: details of the error, as key-value pairs of google.rpc.ErrorInfo.
        request_id: the request id that the server logs; empty if no server responded.
        retry_after: the suggested delay before a retry, in seconds; None if the server suggests none.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        violations: tuple[Violation, ...] = (),
        metadata: dict[str, str] | None = None,
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.violations = violations
        self.metadata = metadata or {}
        self.request_id = request_id
        self.retry_after = retry_after


def convert_rpc_error(error: grpc.RpcError) -> NoMemoryError:
    """Convert a gRPC error and its status details."""
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return NoMemoryError(grpc.StatusCode.UNKNOWN, str(error))
    status = _read_status(error)
    info = _find_detail(status, error_details_pb2.ErrorInfo())
    bad_request = _find_detail(status, error_details_pb2.BadRequest())
    retry = _find_detail(status, error_details_pb2.RetryInfo())
    return NoMemoryError(
        error.code(),
        error.details() or "",
        reason=info.reason,
        violations=tuple(Violation(v.field, v.description) for v in bad_request.field_violations),
        metadata=dict(info.metadata),
        request_id=_read_trailer(error, REQUEST_ID) or info.metadata.get("request_id", ""),
        retry_after=retry.retry_delay.ToTimedelta().total_seconds() if retry.HasField("retry_delay") else None,
    )


def _read_status(call: _FailedCall) -> status_pb2.Status:
    try:
        status: status_pb2.Status | None = rpc_status.from_call(call)
    except ValueError:  # a proxy rewrote the status, so its details are not reliable
        return status_pb2.Status()
    return status or status_pb2.Status()


def _find_detail(status: status_pb2.Status, detail: _Detail) -> _Detail:
    for packed in status.details:
        if packed.Unpack(detail):
            break
    return detail


def _read_trailer(call: _FailedCall, key: str) -> str:
    value = dict(call.trailing_metadata() or ()).get(key, "")
    return value if isinstance(value, str) else value.decode(errors="replace")
