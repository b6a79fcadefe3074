"""A fixture with an endpoint that never answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def silent_endpoint() -> Iterator[str]:
    """The URL of an endpoint that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        host, port = listening.getsockname()[:2]
        yield f"http://{host}:{port}/v1"
