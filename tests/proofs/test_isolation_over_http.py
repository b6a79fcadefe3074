"""`scripts/isolation --over http`: a short run finds nothing, and a server with holes is found out."""

from __future__ import annotations

import random
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import httpx
import pytest
from web.served import settings_of

from proofs.isolation.contract import METHODS
from proofs.isolation.grpc_transport import open_grpc
from proofs.isolation.http1 import Answer
from proofs.isolation.http_forms import http_forms
from proofs.isolation.http_transport import open_http, outcome_of
from proofs.isolation.judge import Judge
from proofs.isolation.main import main
from proofs.isolation.names import call, filled, values
from proofs.isolation.raw_bytes import attack_with_bytes
from proofs.isolation.world import Attacker, World, new_victims
from served import started

if TYPE_CHECKING:
    from served import Server

NOBODY = Attacker("nobody", (), "", may_try_others=True)
CHANCE = random.Random(1)  # noqa: S311 - repeatable, not secret


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that trusts everybody."""
    with started(settings_of(tmp_path_factory.mktemp("over-http"))) as running:
        yield running


def address(server: Server) -> str:
    return server.http.removeprefix("http://")


@contextmanager
def world(server: Server) -> Iterator[World]:
    with open_http(address(server), None) as transport:
        yield World(transport, (), [NOBODY], new_victims(2))


def any_form(_name: str) -> bool:
    return True


@pytest.mark.timeout(300)
def test_a_short_run_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--share", "0.01", "--requests", "250", "--odd", "400", "--timings", "3", "--connections", "0"]
    code = main(["--over", "http", *short, "--raw", "0", "--seed", "1"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "no problems" in printed


def test_a_server_that_shows_everybody_everything_is_found_out(server: Server) -> None:
    with world(server) as there:
        there.plant()
        judge = Judge(there.canaries)
        victim = there.victims[0].user_id
        for name in METHODS:
            request = filled(METHODS[name].request_type, values(there, victim))
            call(name, there, request, (("x-user-id", victim),), judge, "as anybody")
        there.erase()
    assert {problem.kind for problem in judge.problems} == {"leak"}
    leaking = {problem.what.partition(":")[0] for problem in judge.problems}
    assert {"ListMessages", "LexicalSearch", "ExportMessages", "Recall", "StreamRecall"} <= leaking


def test_bytes_that_are_no_request_hurt_nobody(server: Server) -> None:
    target = address(server)
    judge = Judge([])
    with world(server) as there:
        forms = list(http_forms(target, there, CHANCE))
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda form: attack_with_bytes(target, [form], judge, any_form, times=1), forms))
    assert not judge.problems
    assert httpx.get(f"{server.http}/healthz").status_code == 200


def test_a_server_that_takes_bodies_for_requests_is_found_out(server: Server) -> None:
    judge = Judge([])
    with world(server) as there, naive_server() as target:
        for form in http_forms(target, there, CHANCE):
            if form.name in {"a length and chunks", "two lengths", "GET /healthz, x: y"}:
                attack_with_bytes(target, [form], judge, any_form, times=1)
    assert [problem.kind for problem in judge.problems] == ["smuggled"] * 4


class Naive(socketserver.StreamRequestHandler):
    """Answers whatever looks like the first line of a request."""

    def handle(self) -> None:
        """Answer each head; a body is the next one."""
        named = b""
        for line in self.rfile:
            if line.startswith(b"x-request-id: "):
                named = line
            elif line == b"\r\n":
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n" + named + b"\r\n")


@contextmanager
def naive_server() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Naive) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("more", range(4))
def test_a_call_is_the_same_in_every_form(server: Server, name: str, more: int) -> None:
    method = METHODS[name]
    request = filled(method.request_type, {"user_id": "nobody", "query_text": "x", "question": "x" * (more + 1)})
    raw = request.SerializeToString() + b"\x82\x7d" + bytes([more]) + b"x" * more  # a field that nobody knows
    with open_grpc(server.target, None) as one, open_http(address(server), None) as other:
        expected, found = (way.call(method, raw, (("x-user-id", "nobody"),)) for way in (one, other))
    assert found.code is expected.code, found.details
    assert len(found.replies) == len(expected.replies)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (500, [], b"Internal Server Error"),
        (200, [("content-type", "application/json")], b"{"),
        (200, [("content-type", "application/json")], b'{"colour": "red"}'),
        (200, [("content-type", "text/event-stream")], b"data: {}\n\n"),
        (200, [("content-type", "application/connect+json")], b""),
        (400, [("content-type", "application/json")], b'{"error": {"code": "TEAPOT", "message": ""}}'),
    ],
)
def test_an_answer_that_is_none_of_the_contract_is_a_problem(
    status: int, headers: list[tuple[str, str]], body: bytes
) -> None:
    outcome = outcome_of(Answer(status, headers, body), METHODS["ExportMessages"], 0.1)
    assert outcome.code is grpc.StatusCode.UNKNOWN
