"""A server that serves gRPC and HTTP."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from identity.keyring import Keyring

from nomemory.server.runtime.settings import Settings
from running_server import Server


def settings_of(directory: object, **changed: object) -> Settings:
    """Return settings of a small server with gRPC and HTTP."""
    basis = {"data": f"{directory}/data", "listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0", "drain_timeout_s": 0.5}
    return Settings.from_environment(**basis | {"embedder": "none", "embedding_dimension": 4} | changed)


@dataclass(frozen=True)
class Web:
    """A server with an HTTP client."""

    server: Server
    client: httpx.Client


@dataclass(frozen=True)
class GuardedWeb:
    """A server that checks credentials, with its keys and an HTTP client."""

    server: Server
    keyring: Keyring
    client: httpx.Client
