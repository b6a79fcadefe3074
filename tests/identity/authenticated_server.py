"""A server that checks API keys and tokens."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from identity.keyring import Keyring


@dataclass(frozen=True)
class Guarded:
    """A server that checks credentials, and its key file."""

    channel: grpc.Channel
    keyring: Keyring
    target: str
