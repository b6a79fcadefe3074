"""What carries calls to a server. An attack is written once, and made over gRPC or over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from proofs.isolation.contract import Metadata, Method, Outcome

TIMEOUT_S = 20.0


class Transport(Protocol):
    """Carries calls; may be used by several threads."""

    def call(self, method: Method, request: bytes, metadata: Metadata, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Make a call, whatever comes of it. The request is in the binary format, and may be damaged."""

    def is_healthy(self, timeout_s: float) -> bool:
        """Return whether the server says in time that it serves."""


Open = Callable[[str, Path | None], AbstractContextManager[Transport]]
"""Opens a transport of its own to HOST:PORT; over TLS where certificates (PEM) to trust are given."""
