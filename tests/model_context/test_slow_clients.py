"""Tests that `nomemory mcp --http` has the limits of `nomemory serve --http`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import httpx2
import pytest
from click.testing import CliRunner
from model_context.guarded import Guarded, command
from web.raw_http import all_read, connected

from nomemory.cli.main import nomemory


@pytest.fixture(scope="module")
def hasty(guarded: Guarded) -> Iterator[str]:
    """A command with short timeouts."""
    environment = {"NOMEMORY_TARGET": guarded.server.target, "PATH": os.environ["PATH"]}
    with command(environment | {"NOMEMORY_CONNECTION_IDLE_TIMEOUT_S": "1"}, "--http", "127.0.0.1:0") as address:
        yield address


def is_answered(url: str) -> bool:
    try:
        return httpx2.post(url, json={}, timeout=5).status_code == 401
    except httpx2.HTTPError:
        return False


def test_idle_connection_is_closed(hasty: str) -> None:
    with closing(connected(hasty)) as peer:
        assert all_read(peer) == b""


def test_idle_connection_is_closed_after_a_response(hasty: str) -> None:
    with closing(connected(hasty)) as peer:
        peer.sendall(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
        assert all_read(peer).startswith(b"HTTP/1.1 401 ")


def test_oversized_headers_are_rejected(hasty: str) -> None:
    with closing(connected(hasty)) as peer:
        peer.sendall(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 1_000_000 + b"\r\n\r\n")
        assert all_read(peer).startswith(b"HTTP/1.1 400 ")
    assert is_answered(hasty)


def test_port_in_use_is_reported(guarded: Guarded, hasty: str) -> None:
    taken = hasty.removesuffix("/mcp").removeprefix("http://")
    ended = CliRunner().invoke(nomemory, ["mcp", "--http", taken], env={"NOMEMORY_TARGET": guarded.server.target})
    assert ended.exit_code == 1
    assert "the port is free" in ended.stderr
