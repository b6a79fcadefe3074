"""Fixtures with a server that checks API keys and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from identity.authenticated_server import Guarded
from identity.issuer import TRUSTED
from identity.keyring import Keyring

from nomemory.server.runtime.settings import Settings
from running_server import settings_without_embedder, started


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with a key file and a shared secret for tokens."""
    keyring = Keyring(tmp_path_factory.mktemp("keys") / "keys.json")
    keyring.key("query", name="first")
    settings = settings_without_embedder(
        tmp_path_factory.mktemp("guarded") / "data",
        api_keys=keyring.path,
        **TRUSTED,
    )
    with started(settings) as server, grpc.insecure_channel(server.target) as channel:
        yield Guarded(channel, keyring, server.target)


@pytest.fixture
def settle(tmp_path: Path) -> Callable[..., Settings]:
    """Return the settings of a small server with changes."""
    return lambda **changed: settings_without_embedder(tmp_path / "data", **changed)
