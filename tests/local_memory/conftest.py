"""Homes of local servers. Their paths are short: a socket's path is."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_memory.local import LocalHome


@pytest.fixture
def at() -> Iterator[LocalHome]:
    """An empty home."""
    root = Path(tempfile.mkdtemp(prefix="nm-"))
    local = LocalHome(root)
    yield local
    local.stop()
    shutil.rmtree(root)
