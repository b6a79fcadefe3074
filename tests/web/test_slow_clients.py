"""Who sends half a request, reads no answer or opens many connections holds up nobody else."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from server.fleet import until
from web.raw_http import all_read, answered, connected, request
from web.served import settings_of

from served import Server, started

if TYPE_CHECKING:
    from web.served import Web

PATIENCE_S, AHEAD = 30, 12


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that waits for nobody long."""
    settings = settings_of(
        tmp_path_factory.mktemp("hasty"),
        http_head_s=0.5,
        http_connections_max=8,
        http_heartbeat_s=0.1,
        connection_idle_s=1,
        deadline_default_s=2.0,
        unread_s=0.5,
    )
    with started(settings) as server:
        yield server


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ", b"\r\n" * 10]
)
def test_half_a_request_is_given_up(hasty: Server, sent: bytes) -> None:
    with closing(connected(hasty.http)) as peer:
        peer.sendall(sent)
        assert all_read(peer) == b""


def test_half_a_body_is_given_up_at_the_deadline(hasty: Server) -> None:
    with closing(connected(hasty.http)) as peer:
        peer.sendall(request("POST /v1/messages", "content-type: application/json", "content-length: 100", body=b"{"))
        assert all_read(peer).startswith(b"HTTP/1.1 504 ")


def test_a_connection_without_requests_ends(hasty: Server) -> None:
    with closing(connected(hasty.http)) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert all_read(peer).startswith(b"HTTP/1.1 200 ")


def test_so_does_one_with_an_empty_line_behind_an_answer(hasty: Server) -> None:
    with closing(connected(hasty.http)) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert peer.recv(65_536).startswith(b"HTTP/1.1 200 ")
        peer.sendall(b"\r\n")
        peer.settimeout(10)
        all_read(peer)


@pytest.mark.parametrize("begun", [b"0\r\nx: ", b"2;x="])
def test_what_stands_behind_a_part_of_a_body_has_a_limit(web: Web, begun: bytes) -> None:
    head = ("content-type: application/json", "transfer-encoding: chunked", "x-timeout-ms: 3000")
    parts = [request("POST /v1/messages", *head), b"1\r\n{\r\n", begun, *[b"a" * 65_536] * 16]
    assert answered(web.server.http, *parts) == b""


def test_connections_beyond_the_limit_are_closed(hasty: Server) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(closing(connected(hasty.http))) for _ in range(20)]
        for peer in peers:
            peer.settimeout(0.2)
        assert until(lambda: sum(is_closed(peer) for peer in peers) >= 12)

    def answers() -> bool:
        try:
            return httpx.get(f"{hasty.http}/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    assert until(answers)


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nx: "])
def test_who_brings_no_request_makes_room(tmp_path: Path, sent: bytes) -> None:
    with started(settings_of(tmp_path, http_connections_max=8, http_head_s=60)) as server, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(closing(connected(server.http))).sendall(sent)
        with httpx.Client(base_url=server.http, timeout=PATIENCE_S) as client:
            assert client.get("/v1/status").status_code == 200
            for _ in range(8):
                stack.enter_context(closing(connected(server.http)))
            assert client.get("/v1/status").status_code == 200  # one whose call was admitted stays


def is_closed(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_requests_sent_far_ahead_end_the_connection(web: Web) -> None:
    flood = b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000
    with closing(connected(web.server.http)) as peer:
        peer.sendall(flood)
        assert all_read(peer).count(b"HTTP/1.1 200 ") < 1000


def test_some_requests_sent_ahead_are_answered_in_order(web: Web) -> None:
    ahead = [request(f"GET /v1/status?user_id=u{n}", f"x-request-id: r{n}") for n in range(5)]
    ahead = [one.replace(b"connection: close\r\n", b"") for one in ahead[:-1]] + ahead[-1:]
    with closing(connected(web.server.http)) as peer:
        peer.sendall(b"".join(ahead))
        found = all_read(peer)
    places = [found.index(b"x-request-id: r%d\r\n" % n) for n in range(5)]
    assert places == sorted(places)


def test_who_reads_no_answer_is_cut_off(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, deadline_default_s=1.0, unread_s=0.2)
    long = {"role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z", "content": "x" * 200_000, "userId": "u"}
    with started(settings) as server:
        for _ in range(2):
            httpx.post(f"{server.http}/v1/messages", json={"messages": [long] * 10}, timeout=PATIENCE_S)
        with closing(connected(server.http)) as peer:
            peer.sendall(request("GET /v1/users/u/messages").replace(b"connection: close\r\n", b"") * AHEAD)
            time.sleep(3.5)  # longer than a reply may stay unread, and longer than it takes to notice
            found = all_read(peer)
        assert found.count(b"HTTP/1.1 200 ") < AHEAD
        assert httpx.get(f"{server.http}/healthz").status_code == 200


def test_a_silent_stream_shows_that_it_lives(hasty: Server) -> None:
    lines = b'{"messages": ['
    with closing(connected(hasty.http)) as peer:
        head = request("POST /v1/recall:stream", "content-type: application/json", "x-user-id: u", "content-length: 99")
        peer.sendall(head + lines)
        assert peer.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert until(lambda: b":\n\n" in peer.recv(65_536))
