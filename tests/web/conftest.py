"""Fixtures with servers that serve HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from identity.issuer import TRUSTED
from identity.keyring import Keyring
from web.http_server import GuardedWeb, Web, settings_of

from running_server import started

TIMEOUT_S = 30


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server without credentials."""
    with (
        started(settings_of(tmp_path_factory.mktemp("web"))) as server,
        httpx.Client(base_url=server.http, timeout=TIMEOUT_S) as client,
    ):
        yield Web(server, client)


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
