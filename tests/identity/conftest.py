"""A server that takes API keys and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from identity.issuer import TRUSTED
from identity.keyring import Keyring

from conftest import started
from nomemory.server.settings import Settings


@dataclass(frozen=True)
class Guarded:
    """A server that checks credentials, and the file of its keys."""

    channel: grpc.Channel
    keyring: Keyring
    target: str


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with a file of keys and a shared secret for tokens."""
    keyring = Keyring(tmp_path_factory.mktemp("keys") / "keys.json")
    keyring.key("query", name="first")
    settings = small(
        tmp_path_factory.mktemp("guarded"),
        api_keys=keyring.path,
        **TRUSTED,
    )
    with started(settings) as server, grpc.insecure_channel(server.target) as channel:
        yield Guarded(channel, keyring, server.target)


@pytest.fixture
def settle(tmp_path: Path) -> Callable[..., Settings]:
    """Make the settings of a small server, with changes."""
    return lambda **changed: small(tmp_path, **changed)


def small(directory: Path, **changed: object) -> Settings:
    """Make the settings of a small server."""
    basis = {"data": directory / "data", "listen": "127.0.0.1:0", "drain_s": 0.0}
    return Settings.from_environment(**basis | {"embedder": "none", "embedding_dimension": 4} | changed)
