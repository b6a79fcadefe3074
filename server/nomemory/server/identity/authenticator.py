"""The protocol of authenticators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from nomemory.server.identity.caller import Caller, Metadata

Peer = Callable[[], Mapping[str, Iterable[bytes]]]
"""Return the properties of the connection's other end, as gRPC's `auth_context` has them."""


class Authenticator(Protocol):
    """Finds out who calls, from what the call brings."""

    async def caller(self, metadata: Metadata, peer: Peer) -> Caller:
        """Return the caller.

        Raises:
            Fault: CREDENTIALS_MISSING, there are none; CREDENTIALS_INVALID, they are not good.
        """
