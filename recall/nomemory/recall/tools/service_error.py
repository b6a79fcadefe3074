"""Read an error of the QueryService: its code, its message, and its violations by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

_Detail = TypeVar("_Detail", bound=Message)


_EndedCall = grpc.Call | grpc.aio.AioRpcError


@dataclass(frozen=True, slots=True)
class ServiceError:
    """A call's error.

    `violations` are what is wrong with the fields of the request, by their paths. `reason` is the contract's name for
    what went wrong, such as `ERROR_REASON_INDEX_LAGGING`; empty: it says none.
    """

    code: grpc.StatusCode
    details: str = ""
    violations: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


def service_error(error: grpc.RpcError) -> ServiceError:
    """Read an error; one that says nothing of itself has the code UNKNOWN."""
    if not isinstance(error, _EndedCall):
        return ServiceError(grpc.StatusCode.UNKNOWN)
    status = _status(error)
    bad = _detail(status, error_details_pb2.BadRequest()).field_violations
    reason = _detail(status, error_details_pb2.ErrorInfo()).reason
    return ServiceError(error.code(), error.details() or "", {one.field: one.description for one in bad}, reason)


def _detail(status: status_pb2.Status, found: _Detail) -> _Detail:
    """Fill a detail from a status that has one of its kind; else it stays empty."""
    for detail in status.details:
        if detail.Unpack(found):
            break
    return found


def _status(call: _EndedCall) -> status_pb2.Status:
    """Return the google.rpc status that came with an error; an empty one where none did, or none that can be read."""
    try:
        return rpc_status.from_call(call) or status_pb2.Status()
    except (ValueError, DecodeError):
        return status_pb2.Status()
