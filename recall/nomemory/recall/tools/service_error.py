"""The parts of an error of the QueryService: its code, its message, and its violations by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

_EndedCall = grpc.Call | grpc.aio.AioRpcError


@dataclass(frozen=True, slots=True)
class ServiceError:
    """A call's error.

    `violations` are what is wrong with the fields of the request, by their paths. `reason` is the contract's name for
    what went wrong, such as `ERROR_REASON_INDEX_BEHIND`; empty: it says none.
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
    return ServiceError(error.code(), error.details() or "", _violations(status), _reason(status))


def _violations(status: status_pb2.Status) -> dict[str, str]:
    bad = error_details_pb2.BadRequest()
    for detail in status.details:
        if detail.Unpack(bad):
            break
    return {violation.field: violation.description for violation in bad.field_violations}


def _reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            break
    return str(info.reason)


def _status(call: _EndedCall) -> status_pb2.Status:
    """Return the google.rpc status that came with an error; an empty one where none did, or none that can be read."""
    try:
        return rpc_status.from_call(call) or status_pb2.Status()
    except (ValueError, DecodeError):
        return status_pb2.Status()
