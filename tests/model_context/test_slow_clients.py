"""`nomemory mcp --http` holds nothing for long that is no request: it has the limits of `nomemory serve --http`."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx2
import pytest
from model_context.guarded import Guarded, command
from server.fleet import until
from web.raw_http import all_read, connected, request

LIMITS = {
    "NOMEMORY_HTTP_HEAD_S": "0.5",
    "NOMEMORY_HTTP_CONNECTIONS_MAX": "8",
    "NOMEMORY_HTTP_HEAD_MAX_BYTES": "4096",
    "NOMEMORY_CONNECTION_IDLE_S": "1",
    "NOMEMORY_DEADLINE_DEFAULT_S": "1",
}


@pytest.fixture(scope="module")
def hasty(guarded: Guarded) -> Iterator[str]:
    """A command that waits for nobody long."""
    environment = {"NOMEMORY_TARGET": guarded.server.target, "PATH": os.environ["PATH"], **LIMITS}
    with command(environment, "--http", "127.0.0.1:0") as address:
        yield address


def is_answered(url: str) -> bool:
    try:
        return httpx2.post(url, json={}, timeout=5).status_code == 401
    except httpx2.HTTPError:
        return False


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HT", b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: "])
def test_a_connection_that_brings_no_request_is_closed(hasty: str, sent: bytes) -> None:
    with closing(connected(hasty)) as peer:
        peer.sendall(sent)
        assert all_read(peer) == b""


def test_so_is_one_whose_request_was_answered(hasty: str) -> None:
    with closing(connected(hasty)) as peer:
        peer.sendall(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
        assert all_read(peer).startswith(b"HTTP/1.1 401 ")


def test_half_a_body_is_given_up(hasty: str, guarded: Guarded) -> None:
    shown = f"authorization: Bearer {guarded.token('bob')}"
    head = ("content-type: application/json", "accept: application/json, text/event-stream", "content-length: 100")
    with closing(connected(hasty)) as peer:
        peer.sendall(request("POST /mcp", shown, *head, body=b"{"))
        assert b"200 OK" not in all_read(peer)


def test_silent_connections_keep_others_out_for_a_moment_only(hasty: str) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(closing(connected(hasty))) for _ in range(20)]
        assert until(lambda: is_answered(hasty))
        assert until(lambda: all(map(is_closed, peers)))


def is_closed(peer: socket.socket) -> bool:
    peer.settimeout(0.01)
    try:
        return peer.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_what_is_no_request_is_refused(hasty: str) -> None:
    with closing(connected(hasty)) as peer:
        peer.sendall(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 8_000 + b"\r\n\r\n")
        assert all_read(peer).startswith(b"HTTP/1.1 400 ")
    assert is_answered(hasty)


def test_a_port_that_is_taken_is_told(guarded: Guarded, hasty: str) -> None:
    taken = hasty.removesuffix("/mcp").removeprefix("http://")
    environment = {"NOMEMORY_TARGET": guarded.server.target, "PATH": os.environ["PATH"]}
    with pytest.raises(IndexError), command(environment, "--http", taken):
        pass
