"""Assertions about the outcome of a hostile call: no leak, server error, timeout or lost connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import grpc
import httpx

from proofs.contract import CallOutcome
from proofs.finding import Finding
from proofs.http_transport import serialize_response

_SERVER_ERRORS = (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
)
_EXPECTED_5XX = (503, 504)
_SERVER_ERROR = 500
_CHECKSUM_ERROR = "damaged"
"""Nothing damages this log: a checksum that does not match is that of another user's message."""


def findings_of(call: str, outcome: CallOutcome, canaries: Sequence[bytes]) -> Iterator[Finding]:
    """Yield the problems in the outcome of a call."""
    if any(canary in outcome.visible for canary in canaries):
        yield Finding("leak", f"{call} → {outcome.code.name}")
    if outcome.code in _SERVER_ERRORS:
        yield Finding(outcome.code.name, f"{call}: {outcome.details[:200]}")
    if outcome.code is grpc.StatusCode.DEADLINE_EXCEEDED and not outcome.is_from_server:
        yield Finding("hang", f"{call}: no answer after {outcome.seconds:.0f} s")
    if outcome.code is grpc.StatusCode.UNAVAILABLE and not outcome.is_from_server:
        yield Finding("connection", f"{call}: {outcome.details[:200]}")
    if outcome.code is grpc.StatusCode.UNAVAILABLE and _CHECKSUM_ERROR in outcome.details:
        yield Finding("damage", f"{call}: {outcome.details[:200]}")


def findings_of_answer(call: str, answer: httpx.Response, canaries: Sequence[bytes]) -> Iterator[Finding]:
    """Yield the problems in the response to a malformed HTTP request."""
    if any(canary in serialize_response(answer) for canary in canaries):
        yield Finding("leak", f"{call} → {answer.status_code}")
    if answer.status_code >= _SERVER_ERROR and answer.status_code not in _EXPECTED_5XX:
        yield Finding("INTERNAL", f"{call} → {answer.status_code}: {answer.text[:200]}")
