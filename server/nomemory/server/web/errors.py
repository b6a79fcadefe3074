"""Errors over HTTP: a number, and what clients may know of the error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import grpc
from google.protobuf.message import Message as ProtoMessage
from google.rpc import code_pb2, error_details_pb2, status_pb2

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.caller import Metadata
from nomemory.server.rpc.status import status_of
from nomemory.server.web.transcoding import as_json

Headers = tuple[tuple[bytes, bytes], ...]
_DETAILS_KEY: Final = "grpc-status-details-bin"
_HTTP_STATUSES: Final[Mapping[int, int]] = {
    code_pb2.CANCELLED: 499,
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
    code_pb2.UNAVAILABLE: 503,
}
"""Those of other codes are 500."""
_TOO_LARGE: Final = Reason.Name(Reason.ERROR_REASON_REQUEST_TOO_LARGE)
_DETAILS: Final[tuple[type[ProtoMessage], ...]] = (
    error_details_pb2.ErrorInfo,
    error_details_pb2.BadRequest,
    error_details_pb2.RetryInfo,
)


class RefusedError(Fault):
    """A request is refused before it is a call, with a number and headers that only HTTP has."""

    def __init__(self, reason: Reason.ValueType, message: str, http_status: int, headers: Headers = ()) -> None:
        super().__init__(reason, message)
        self.http_status = http_status
        self.headers = headers


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """An error as clients may know it."""

    http_status: int
    code: str
    message: str
    details: tuple[ProtoMessage, ...]
    further: Headers = ()

    def headers(self) -> Headers:
        """Return the headers that belong to it: when to try again, in whole seconds, what to show, and further ones."""
        found = self.further
        if self.code == "UNAUTHENTICATED":
            found += ((b"www-authenticate", b"Bearer"),)
        for detail in self.details:
            if isinstance(detail, error_details_pb2.RetryInfo):
                after_s = detail.retry_delay.seconds + detail.retry_delay.nanos * 1e-9
                found += ((b"retry-after", b"%d" % max(1, math.ceil(after_s))),)
        return found

    def as_json(self) -> dict[str, object]:
        """Return it as most answers have it; the Connect protocol has a form of its own."""
        details = [{"@type": f"type.googleapis.com/{one.DESCRIPTOR.full_name}", **as_json(one)} for one in self.details]
        return {"error": {"code": self.code, "message": self.message, "details": details}}


def error_of(code: grpc.StatusCode, message: str, trailing_metadata: Metadata) -> ErrorStatus:
    """Return the error of a call that ended with a status."""
    raw = dict(trailing_metadata).get(_DETAILS_KEY)
    status = status_pb2.Status(code=code.value[0], message=message)
    if isinstance(raw, bytes):
        status = status_pb2.Status.FromString(raw)
    details = [one for packed in status.details for one in (of() for of in _DETAILS) if packed.Unpack(one)]
    number = _HTTP_STATUSES.get(status.code, 500)
    if any(isinstance(one, error_details_pb2.ErrorInfo) and one.reason == _TOO_LARGE for one in details):
        number = 413
    return ErrorStatus(number, code_pb2.Code.Name(status.code), status.message, tuple(details))


def error_of_fault(fault: Fault, request_id: str) -> ErrorStatus:
    """Return the error of a request that is refused before it is a call."""
    status = status_of(fault, request_id)
    error = error_of(status.code, status.details, status.trailing_metadata)
    if isinstance(fault, RefusedError):
        return replace(error, http_status=fault.http_status, further=fault.headers)
    return error
