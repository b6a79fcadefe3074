"""A scripted server for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from client.scripted_server import Scripted, scripted_server


@pytest.fixture
def script() -> Iterator[Scripted]:
    """A server with scripted responses."""
    with scripted_server() as running:
        yield running
