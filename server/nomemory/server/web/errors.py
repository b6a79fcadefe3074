"""Statuses of calls as HTTP has them: a number, and what clients may know of the error.

Errors as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import grpc
from google.protobuf.message import Message as ProtoMessage
from google.rpc import code_pb2, error_details_pb2, status_pb2

from nomemory.server.faults import Fault, Reason
from nomemory.server.rpc.status import status_of
from nomemory.server.web.encoding import as_json

_DETAILS_KEY: Final = "grpc-status-details-bin"
_HTTP_STATUSES: Final[Mapping[int, int]] = {
    code_pb2.OK: 200,
    code_pb2.CANCELLED: 499,
    code_pb2.UNKNOWN: 500,
    code_pb2.INVALID_ARGUMENT: 400,
    code_pb2.DEADLINE_EXCEEDED: 504,
    code_pb2.NOT_FOUND: 404,
    code_pb2.ALREADY_EXISTS: 409,
    code_pb2.PERMISSION_DENIED: 403,
    code_pb2.UNAUTHENTICATED: 401,
    code_pb2.RESOURCE_EXHAUSTED: 429,
    code_pb2.FAILED_PRECONDITION: 400,
    code_pb2.ABORTED: 409,
    code_pb2.OUT_OF_RANGE: 400,
    code_pb2.UNIMPLEMENTED: 501,
    code_pb2.INTERNAL: 500,
    code_pb2.UNAVAILABLE: 503,
    code_pb2.DATA_LOSS: 500,
}
_BY_REASON: Final = {Reason.Name(Reason.ERROR_REASON_REQUEST_TOO_LARGE): 413}
"""Where HTTP has a number of its own."""


_TYPES: Final[tuple[type[ProtoMessage], ...]] = (
    error_details_pb2.ErrorInfo,
    error_details_pb2.BadRequest,
    error_details_pb2.RetryInfo,
)


class RefusedError(Exception):
    """A request is refused before it is a call.

    Args:
        fault: why.
        http_status: the number that HTTP has for it; None: that of the fault's code.
        headers: further headers of the answer.
    """

    def __init__(
        self, fault: Fault, http_status: int | None = None, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.http_status = http_status
        self.headers = headers


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """An error as clients may know it."""

    http_status: int
    code: str
    message: str
    details: tuple[ProtoMessage, ...]

    @property
    def retry_after_s(self) -> int | None:
        """Whole seconds after which to try again; None: it would not help, or nobody knows when."""
        for detail in self.details:
            if isinstance(detail, error_details_pb2.RetryInfo):
                return max(1, math.ceil(float(detail.retry_delay.seconds + detail.retry_delay.nanos * 1e-9)))
        return None


def error_of(status: grpc.Status) -> ErrorStatus:
    """Return the error of a call that ended with a status."""
    trailing = dict(status.trailing_metadata or ())
    raw = trailing.get(_DETAILS_KEY)
    if isinstance(raw, bytes):
        return _error(status_pb2.Status.FromString(raw))
    return _error(status_pb2.Status(code=status.code.value[0], message=status.details or ""))


def error_of_fault(fault: Fault, request_id: str, http_status: int | None = None) -> ErrorStatus:
    """Return the error of a request that is refused before it is a call."""
    error = error_of(status_of(fault, request_id))
    return ErrorStatus(http_status or error.http_status, error.code, error.message, error.details)


def _error(status: status_pb2.Status) -> ErrorStatus:
    details = tuple(_unpacked(status))
    reasons = [detail.reason for detail in details if isinstance(detail, error_details_pb2.ErrorInfo)]
    number = next((_BY_REASON[reason] for reason in reasons if reason in _BY_REASON), _HTTP_STATUSES[status.code])
    return ErrorStatus(number, str(code_pb2.Code.Name(status.code)), status.message, details)


def _unpacked(status: status_pb2.Status) -> list[ProtoMessage]:
    found: list[ProtoMessage] = []
    for packed in status.details:
        for of in _TYPES:
            if packed.Is(of.DESCRIPTOR):
                message = of()
                packed.Unpack(message)
                found.append(message)
    return found


def error_json(error: ErrorStatus) -> dict[str, object]:
    """Return an error as the dialect of the annotations has it."""
    details = [
        {"@type": f"type.googleapis.com/{one.DESCRIPTOR.full_name}", **cast("Mapping[str, Any]", as_json(one))}
        for one in error.details
    ]
    return {"error": {"code": error.code, "message": error.message, "details": details}}
