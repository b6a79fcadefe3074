"""Tests for the assertions of the fuzz tests and the reproducibility of their seeds."""

from __future__ import annotations

import random

import grpc
import httpx
import pytest
from isolation.assertions import findings_of, findings_of_answer
from isolation.request_generator import RequestGenerator

from proofs.contract import METHODS, CallOutcome

CANARY = b"secret"


@pytest.mark.parametrize(
    ("code", "visible", "is_from_server", "kind"),
    [
        (grpc.StatusCode.OK, b"... secret ...", True, "leak"),
        (grpc.StatusCode.NOT_FOUND, b"secret", True, "leak"),
        (grpc.StatusCode.INTERNAL, b"", True, "INTERNAL"),
        (grpc.StatusCode.UNKNOWN, b"", True, "UNKNOWN"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, b"", False, "hang"),
        (grpc.StatusCode.UNAVAILABLE, b"", False, "connection"),
        (grpc.StatusCode.UNAVAILABLE, b"a requested message is damaged", True, "damage"),
    ],
)
def test_leaks_errors_and_timeouts_are_reported(
    code: grpc.StatusCode,
    visible: bytes,
    is_from_server: bool,  # noqa: FBT001 - a column
    kind: str,
) -> None:
    outcome = CallOutcome(code, visible, 1.0, is_from_server, details=visible.decode())
    assert [finding.kind for finding in findings_of("a call", outcome, [CANARY])] == [kind]


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE]
)
def test_expected_rejections_are_not_reported(code: grpc.StatusCode) -> None:
    assert not list(findings_of("a call", CallOutcome(code, b"no", 1.0, is_from_server=True), [CANARY]))


@pytest.mark.parametrize(
    ("status", "kinds"), [(200, []), (400, []), (503, []), (500, ["INTERNAL"]), (502, ["INTERNAL"])]
)
def test_http_server_errors_are_reported(status: int, kinds: list[str]) -> None:
    findings = findings_of_answer("a call", httpx.Response(status), [CANARY])
    assert [finding.kind for finding in findings] == kinds


def test_leak_in_a_header_is_reported() -> None:
    answer = httpx.Response(400, headers={"x-reason": CANARY.decode()})
    assert [finding.kind for finding in findings_of_answer("a call", answer, [CANARY])] == ["leak"]


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_generates_the_same_requests(name: str) -> None:
    descriptor = METHODS[name].descriptor.input_type

    def drawn() -> list[bytes]:
        generator = RequestGenerator(random.Random(7), {"user_id": ["mallory"]}, 4)  # noqa: S311 - repeatable, not secret
        return [generator.request(descriptor) for _ in range(20)]

    assert drawn() == drawn()
    if descriptor.fields:
        assert len(set(drawn())) > 2
