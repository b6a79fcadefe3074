"""Decode errors of the QueryService: code, message and field violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

_Detail = TypeVar("_Detail", bound=Message)


_FailedCall = grpc.Call | grpc.aio.AioRpcError


@dataclass(frozen=True, slots=True)
class ServiceError:
    """An error of the QueryService.

    `violations` map the paths of invalid request fields to descriptions. `reason` is the error reason of the API, such
    as `ERROR_REASON_INDEX_LAGGING`, or empty.
    """

    code: grpc.StatusCode
    details: str = ""
    violations: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


def decode_service_error(error: grpc.RpcError) -> ServiceError:
    """Decode a gRPC error. An error without a status has the code UNKNOWN."""
    if not isinstance(error, _FailedCall):
        return ServiceError(grpc.StatusCode.UNKNOWN)
    status = _extract_status(error)
    bad_request = _find_detail(status, error_details_pb2.BadRequest()).field_violations
    reason = _find_detail(status, error_details_pb2.ErrorInfo()).reason
    return ServiceError(
        error.code(),
        error.details() or "",
        {violation.field: violation.description for violation in bad_request},
        reason,
    )


def _find_detail(status: status_pb2.Status, target: _Detail) -> _Detail:
    """Fill a message from the first detail of the same type in a status, if the status has such a detail."""
    for detail in status.details:
        if detail.Unpack(target):
            break
    return target


def _extract_status(call: _FailedCall) -> status_pb2.Status:
    """Return the google.rpc.Status of an error; an empty status if it is missing or malformed."""
    try:
        return rpc_status.from_call(call) or status_pb2.Status()
    except (ValueError, DecodeError):
        return status_pb2.Status()
