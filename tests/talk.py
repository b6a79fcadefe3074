"""Shorthand for tests: messages to write, faults to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from unittest.mock import patch

import grpc
import structlog
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from structlog.testing import LogCapture
from structlog.typing import EventDict

from nomemory.v1 import message_pb2 as m


def said(
    user: str, message_id: str, content: str, ts: float = 0, role: m.Role.ValueType = m.ROLE_USER, **fields: object
) -> m.ChatMessage:
    """Make a message; `ts` in seconds since the epoch."""
    message = m.ChatMessage(user_id=user, message_id=message_id, content=content, role=role, **fields)  # type: ignore[arg-type]
    message.ts.FromMicroseconds(round(ts * 1_000_000))
    return message


def ids(messages: Iterable[m.ChatMessage]) -> list[str]:
    """Return the ids of messages."""
    return [message.message_id for message in messages]


def address_in(line: str) -> str:
    """Find the address in what a server prints when it is ready."""
    match = re.search(r"\S+:[0-9]+", line)
    assert match, f"no address in {line!r}"
    return match.group()


@contextmanager
def logged(module: ModuleType) -> Iterator[list[EventDict]]:
    """Collect what a module logs, whatever an earlier test set the logs of this process to."""
    capture = LogCapture()
    logger = structlog.wrap_logger(None, processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(0))
    with patch.object(module, "_log", logger):
        yield capture.entries


@dataclass(frozen=True)
class Refusal:
    """What a refused call said."""

    code: grpc.StatusCode
    reason: str
    fields: list[str]
    descriptions: list[str]
    text: str
    retry_s: float | None


def request_id_of(error: grpc.RpcError) -> str:
    """Read the request id that a failed call brought back."""
    trailing: list[tuple[str, str]] = list(error.trailing_metadata() or ())  # type: ignore[arg-type]  # text, by contract
    return dict(trailing)["x-request-id"]


def refusal(error: grpc.RpcError) -> Refusal:
    """Read the google.rpc details of an error; every error of the contract has them."""
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
