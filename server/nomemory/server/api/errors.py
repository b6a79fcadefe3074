"""Conversion of errors to `google.rpc.Status` messages."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtoMessage
from google.rpc import code_pb2, error_details_pb2, status_pb2

from nomemory.server.faults import Fault, Reason, Violation
from nomemory.server.runtime.structured_logs import structlog

DOMAIN: Final = "nomemory"

_CODES: Final = {
    Reason.ERROR_REASON_INVALID_FIELD: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_MALFORMED_REQUEST: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_CURSOR_MALFORMED: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_CURSOR_FORGED: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_CURSOR_EXPIRED: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_CURSOR_OTHER_USER: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_CURSOR_OTHER_QUERY: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_WRITE_TOKEN_INVALID: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_MESSAGE_CONFLICT: code_pb2.ALREADY_EXISTS,
    Reason.ERROR_REASON_MESSAGE_NOT_FOUND: code_pb2.NOT_FOUND,
    Reason.ERROR_REASON_QUERY_TOO_COMPLEX: code_pb2.INVALID_ARGUMENT,
    Reason.ERROR_REASON_EMBEDDER_DISABLED: code_pb2.FAILED_PRECONDITION,
    Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE: code_pb2.UNAVAILABLE,
    Reason.ERROR_REASON_INDEX_UNAVAILABLE: code_pb2.UNAVAILABLE,
    Reason.ERROR_REASON_INDEX_LAGGING: code_pb2.DEADLINE_EXCEEDED,
    Reason.ERROR_REASON_DEADLINE_EXCEEDED: code_pb2.DEADLINE_EXCEEDED,
    Reason.ERROR_REASON_OVERLOADED: code_pb2.RESOURCE_EXHAUSTED,
    Reason.ERROR_REASON_STORAGE_UNAVAILABLE: code_pb2.UNAVAILABLE,
    Reason.ERROR_REASON_INTERNAL: code_pb2.INTERNAL,
    Reason.ERROR_REASON_CREDENTIALS_MISSING: code_pb2.UNAUTHENTICATED,
    Reason.ERROR_REASON_CREDENTIALS_INVALID: code_pb2.UNAUTHENTICATED,
    Reason.ERROR_REASON_SCOPE_MISSING: code_pb2.PERMISSION_DENIED,
    Reason.ERROR_REASON_OTHER_USER: code_pb2.PERMISSION_DENIED,
    Reason.ERROR_REASON_USER_NOT_BOUND: code_pb2.UNAUTHENTICATED,
    Reason.ERROR_REASON_SKILL_NOT_FOUND: code_pb2.NOT_FOUND,
    Reason.ERROR_REASON_SKILL_INVALID: code_pb2.FAILED_PRECONDITION,
    Reason.ERROR_REASON_QUERY_SERVICE_UNAVAILABLE: code_pb2.UNAVAILABLE,
    Reason.ERROR_REASON_PATH_NOT_FOUND: code_pb2.NOT_FOUND,
    Reason.ERROR_REASON_ORIGIN_NOT_ALLOWED: code_pb2.PERMISSION_DENIED,
    Reason.ERROR_REASON_REQUEST_TOO_LARGE: code_pb2.RESOURCE_EXHAUSTED,
}

_LOGGED_FRAMES: Final = 8
_MESSAGE_MAX_BYTES: Final = 500
_VIOLATIONS_MAX_BYTES: Final = 3_300
"""Size limits of a status. gRPC sends the status in headers, and peers limit all headers together to 8 KB. The details
are base64-encoded. The message is sent in the details and, percent-encoded, in a separate header."""


def get_grpc_code(fault: Fault) -> int:
    """Return the gRPC status code of a fault as a number."""
    return int(_CODES[fault.reason])


def get_grpc_code_name(fault: Fault) -> str:
    """Return the name of a fault's gRPC status code, such as `NOT_FOUND`."""
    return str(code_pb2.Code.Name(get_grpc_code(fault)))


def get_short_reason(fault: Fault) -> str:
    """Return the name of a fault's reason without the enum prefix, such as `INVALID_FIELD`."""
    return str(Reason.Name(fault.reason)).removeprefix("ERROR_REASON_")


def to_fault(error: BaseException, log: structlog.stdlib.BoundLogger) -> Fault:
    """Convert an error to a fault for the client, and log it if it is unexpected.

    An unexpected error becomes an INTERNAL fault.

    The log entry contains the type and the stack frames of the error. The text of an error may quote message content,
    and is only logged at the level `debug`.
    """
    if isinstance(error, Fault):
        return error
    if isinstance(error, TimeoutError):
        return Fault(Reason.ERROR_REASON_DEADLINE_EXCEEDED, "the call took longer than its deadline")
    frames = [f"{frame.name} {frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("unexpected error", kind=type(error).__name__, frames=frames[-_LOGGED_FRAMES:])
    log.debug("unexpected error: details", exc_info=error)
    return Fault(Reason.ERROR_REASON_INTERNAL, "internal error")


def encode_status(fault: Fault, request_id: str) -> status_pb2.Status:
    """Return the `google.rpc.Status` of a fault, truncated to fit into response headers."""
    status = status_pb2.Status(code=get_grpc_code(fault), message=_truncate(fault.message))
    for detail in _encode_details(fault, request_id):
        status.details.add().Pack(detail)
    return status


def _truncate(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _MESSAGE_MAX_BYTES:
        return message
    return encoded[: _MESSAGE_MAX_BYTES - len("…".encode())].decode(errors="ignore") + "…"


def _encode_details(fault: Fault, request_id: str) -> list[ProtoMessage]:
    info = error_details_pb2.ErrorInfo(reason=Reason.Name(fault.reason), domain=DOMAIN, metadata=dict(fault.metadata))
    info.metadata["request_id"] = request_id
    details: list[ProtoMessage] = [info]
    if fault.violations:
        bad_request = _encode_violations(fault.violations)
        details.append(bad_request)
        if len(bad_request.field_violations) < len(fault.violations):
            info.metadata["violations"] = str(len(fault.violations))
    if fault.retry_after_s is not None:
        delay = Duration()
        delay.FromMilliseconds(int(fault.retry_after_s * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return details


def _encode_violations(violations: Sequence[Violation]) -> error_details_pb2.BadRequest:
    """Return a BadRequest detail with as many violations as the size limit allows."""
    bad_request = error_details_pb2.BadRequest()
    for violation in violations:
        bad_request.field_violations.add(field=violation.field, description=violation.description)
        if bad_request.ByteSize() > _VIOLATIONS_MAX_BYTES:
            del bad_request.field_violations[-1]
            break
    return bad_request
