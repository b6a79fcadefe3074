"""A server that serves HTTP, too."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from identity.keyring import Keyring

from nomemory.server.runtime.settings import Settings
from running_server import Server


def settings_of(directory: object, **changed: object) -> Settings:
    """Settings of a small server with both ways in."""
    basis = {"data": f"{directory}/data", "listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0", "drain_timeout_s": 0.5}
    return Settings.from_environment(**basis | {"embedder": "none", "embedding_dimension": 4} | changed)


@dataclass(frozen=True)
class Web:
    """A server, and a client of it over HTTP."""

    server: Server
    client: httpx.Client


@dataclass(frozen=True)
class GuardedWeb:
    """A server that checks credentials, its keys, and a client of it over HTTP."""

    server: Server
    keyring: Keyring
    client: httpx.Client
