"""A server that serves HTTP, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from identity.issuer import TRUSTED
from identity.keyring import Keyring

from conftest import Server, started
from nomemory.server.settings import Settings

TIMEOUT_S = 30


def settings_of(directory: object, **changed: object) -> Settings:
    """Settings of a small server with both ways in."""
    basis = {"data": f"{directory}/data", "listen": "127.0.0.1:0", "http": "127.0.0.1:0", "drain_s": 0.5}
    return Settings.from_environment(**basis | {"embedder": "none", "embedding_dimension": 4} | changed)


@dataclass(frozen=True)
class Web:
    """A server, and a client of it over HTTP."""

    server: Server
    client: httpx.Client


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server without credentials."""
    with (
        started(settings_of(tmp_path_factory.mktemp("web"))) as server,
        httpx.Client(base_url=server.http, timeout=TIMEOUT_S) as client,
    ):
        yield Web(server, client)


@dataclass(frozen=True)
class GuardedWeb:
    """A server that checks credentials, its keys, and a client of it over HTTP."""

    server: Server
    keyring: Keyring
    client: httpx.Client


@pytest.fixture(scope="session")
def guarded_web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedWeb]:
    """A server with API keys and tokens, and one allowed origin."""
    keyring = Keyring(tmp_path_factory.mktemp("web-keys") / "keys.json")
    keyring.key("query", name="first")
    settings = settings_of(
        tmp_path_factory.mktemp("guarded-web"),
        api_keys=keyring.path,
        **TRUSTED,
        http_cors_origins="https://chat.example",
    )
    with started(settings) as server, httpx.Client(base_url=server.http, timeout=TIMEOUT_S) as client:
        yield GuardedWeb(server, keyring, client)
