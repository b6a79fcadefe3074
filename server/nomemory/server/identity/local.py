"""The server that checks no credentials: on a loopback address only."""

from __future__ import annotations

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.authenticator import Peer
from nomemory.server.identity.caller import LOCAL, Caller
from nomemory.server.identity.credentials import CARRIERS
from nomemory.server.identity.metadata import Metadata


class LocalAuthenticator:
    """Takes everybody on this machine as trusted."""

    async def caller(self, metadata: Metadata, peer: Peer) -> Caller:  # noqa: ARG002 - the protocol's signature
        """Return the local caller.

        Raises:
            Fault: CREDENTIALS_INVALID, credentials were sent, which nothing here can check: whoever sends them
                believes that they matter.
        """
        if any(name in CARRIERS for name, _ in metadata):
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, "this server checks no credentials: send none")
        return LOCAL
