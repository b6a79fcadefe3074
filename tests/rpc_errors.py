"""Read the status details of failed RPCs."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status


@dataclass(frozen=True)
class Refusal:
    """The status, reason and field violations of a rejected call."""

    code: grpc.StatusCode
    reason: str
    fields: list[str]
    descriptions: list[str]
    text: str
    retry_s: float | None


def request_id_of(error: grpc.RpcError) -> str:
    """Return the request id in the trailing metadata of a failed call."""
    trailing: list[tuple[str, str]] = list(error.trailing_metadata() or ())  # type: ignore[arg-type]  # text, by contract
    return dict(trailing)["x-request-id"]


def refusal(error: grpc.RpcError) -> Refusal:
    """Return the google.rpc details of an error; every error of the contract has them."""
    status = rpc_status.from_call(error)
    info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    details = {detail.TypeName(): detail for detail in status.details}
    assert details["google.rpc.ErrorInfo"].Unpack(info)
    assert info.domain == "nomemory"
    assert info.metadata["request_id"] == request_id_of(error)
    if "google.rpc.BadRequest" in details:
        details["google.rpc.BadRequest"].Unpack(bad)
    retries = "google.rpc.RetryInfo" in details and details["google.rpc.RetryInfo"].Unpack(retry)
    return Refusal(
        error.code(),
        info.reason.removeprefix("ERROR_REASON_"),
        [violation.field for violation in bad.field_violations],
        [violation.description for violation in bad.field_violations],
        error.details() or "",
        retry.retry_delay.ToMilliseconds() / 1000 if retries else None,
    )
