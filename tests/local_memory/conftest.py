"""Fixtures with home directories of local servers, whose paths are short enough for Unix sockets."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from local_memory.local import LocalHome


@contextmanager
def empty_home(embedder: str) -> Iterator[LocalHome]:
    root = Path(tempfile.mkdtemp(prefix="nm-"))
    local = LocalHome(root, embedder=embedder)
    yield local
    local.stop()
    shutil.rmtree(root)


@pytest.fixture
def at() -> Iterator[LocalHome]:
    """An empty home, whose server has no embedder."""
    with empty_home("none") as local:
        yield local


@pytest.fixture(scope="session")
def shared_home() -> Iterator[LocalHome]:
    """A home with a running server that has an embedder, for the tests of all agents."""
    with empty_home("auto") as local, local.served():
        yield local


@pytest.fixture
def served(shared_home: LocalHome) -> LocalHome:
    """The shared home directory, with a separate user for every test."""
    return dataclasses.replace(shared_home, user=f"ann-{uuid.uuid4().hex[:8]}")
