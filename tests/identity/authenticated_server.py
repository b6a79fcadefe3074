"""A server that checks API keys and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc
from identity.keyring import Keyring

from nomemory.server.runtime.settings import Settings


@dataclass(frozen=True)
class Guarded:
    """A server that checks credentials, and its key file."""

    channel: grpc.Channel
    keyring: Keyring
    target: str


def small(directory: Path, **changed: object) -> Settings:
    """Return the settings of a small server."""
    basis = {"data": directory / "data", "listen": "127.0.0.1:0", "drain_timeout_s": 0.0}
    return Settings.from_environment(**basis | {"embedder": "none", "embedding_dimension": 4} | changed)
