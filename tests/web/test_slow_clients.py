"""Tests that slow clients do not block others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from server.fleet import until
from web.http_server import settings_of
from web.raw_http import all_read, answered, connected, request

from nomemory.server.api.http import stream_reply
from running_server import Server, started

if TYPE_CHECKING:
    from web.http_server import Web


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts."""
    directory = tmp_path_factory.mktemp("hasty")
    with started(settings_of(directory, connection_idle_timeout_s=1, default_deadline_s=2.0)) as server:
        yield server


def test_idle_connection_is_closed(hasty: Server) -> None:
    with closing(connected(hasty.http)) as peer:
        assert all_read(peer) == b""


def test_incomplete_body_is_rejected_at_the_deadline(hasty: Server) -> None:
    with closing(connected(hasty.http)) as peer:
        peer.sendall(request("POST /v1/messages", "content-type: application/json", "content-length: 100", body=b"{"))
        assert all_read(peer).startswith(b"HTTP/1.1 504 ")


def test_idle_keep_alive_connection_is_closed(hasty: Server) -> None:
    with closing(connected(hasty.http)) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert all_read(peer).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("begun", [b"0\r\nx: ", b"2;x="])
def test_chunk_headers_have_a_size_limit(web: Web, begun: bytes) -> None:
    head = ("content-type: application/json", "transfer-encoding: chunked", "x-timeout-ms: 3000")
    parts = [request("POST /v1/messages", *head), b"1\r\n{\r\n", begun, *[b"a" * 65_536] * 16]
    assert not answered(web.server.http, *parts).startswith(b"HTTP/1.1 200 ")
    assert web.client.get("/healthz").status_code == 200


def test_pipelined_requests_are_answered_in_order(web: Web) -> None:
    ahead = [request(f"GET /v1/index_status?user_id=u{n}", f"x-request-id: r{n}") for n in range(5)]
    ahead = [item.replace(b"connection: close\r\n", b"") for item in ahead[:-1]] + ahead[-1:]
    with closing(connected(web.server.http)) as peer:
        peer.sendall(b"".join(ahead))
        replies = all_read(peer)
    positions = [replies.index(b"x-request-id: r%d\r\n" % n) for n in range(5)]
    assert positions == sorted(positions)


def test_idle_stream_sends_heartbeats(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reply, "HEARTBEAT_S", 0.1)
    with closing(connected(web.server.http)) as peer:
        head = request("POST /v1/recall:stream", "content-type: application/json", "x-user-id: u", "content-length: 99")
        peer.sendall(head + b'{"messages": [')
        assert peer.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert until(lambda: b":\n\n" in peer.recv(65_536))
