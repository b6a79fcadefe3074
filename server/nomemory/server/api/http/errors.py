"""HTTP error responses, which contain a `google.rpc.Status` as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import Message as ProtoMessage
from google.rpc import code_pb2, error_details_pb2, status_pb2

from nomemory.server.api.http.json_reply import JsonReply
from nomemory.server.faults import Reason

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
"""HTTP status codes by gRPC code, from `google/rpc/code.proto`. Other gRPC codes result in 500."""
_TOO_LARGE: Final = Reason.Name(Reason.ERROR_REASON_REQUEST_TOO_LARGE)
_TOO_LARGE_STATUS: Final = 413
_MALFORMED: Final = Reason.Name(Reason.ERROR_REASON_MALFORMED_REQUEST)
_DETAIL_TYPES: Final[tuple[type[ProtoMessage], ...]] = (
    error_details_pb2.ErrorInfo,
    error_details_pb2.BadRequest,
    error_details_pb2.RetryInfo,
)


def encode_error(status: status_pb2.Status) -> dict[str, Any]:
    """Return a status as JSON, for the body of a response or the last event of a stream."""
    details = [
        {"@type": f"type.googleapis.com/{detail.DESCRIPTOR.full_name}", **json_format.MessageToDict(detail)}
        for detail in _unpack_details(status)
    ]
    return {"error": {"code": code_pb2.Code.Name(status.code), "message": status.message, "details": details}}


def build_error_reply(status: status_pb2.Status, http_status: int | None = None) -> JsonReply:
    """Return the HTTP response that reports a status.

    If `http_status` is None, the HTTP status code is derived from the status.
    """
    headers = {}
    code = http_status or _HTTP_STATUSES.get(status.code, 500)
    if status.code == code_pb2.UNAUTHENTICATED:
        headers["www-authenticate"] = "Bearer"
    for detail in _unpack_details(status):
        if isinstance(detail, error_details_pb2.RetryInfo):
            seconds = detail.retry_delay.seconds + detail.retry_delay.nanos * 1e-9
            headers["retry-after"] = str(max(1, math.ceil(seconds)))
        elif isinstance(detail, error_details_pb2.ErrorInfo) and detail.reason == _TOO_LARGE:
            code = _TOO_LARGE_STATUS
        elif isinstance(detail, error_details_pb2.ErrorInfo) and detail.reason == _MALFORMED:
            headers["connection"] = "close"  # the following bytes may be part of this malformed request
    return JsonReply(encode_error(status), code, headers)


def _unpack_details(status: status_pb2.Status) -> list[ProtoMessage]:
    return [
        detail
        for packed in status.details
        for detail in (detail_type() for detail_type in _DETAIL_TYPES)
        if packed.Unpack(detail)
    ]
