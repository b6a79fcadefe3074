"""Finds out who calls: by a credential, or, on a loopback address only, without any."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import Peer
from nomemory.server.identity.api_keys import ApiKeys
from nomemory.server.identity.caller import LOCAL, Caller, Metadata
from nomemory.server.identity.certificates import Certificates, peer_names
from nomemory.server.identity.credentials import CARRIERS, SentKey, SentToken, invalid_credentials, sent_credential
from nomemory.server.identity.tokens import Tokens


@dataclass(frozen=True, slots=True)
class CredentialAuthenticator:
    """Takes exactly one credential of a kind that the server knows. None: the server does not know that kind."""

    api_keys: ApiKeys | None
    tokens: Tokens | None
    certificates: Certificates | None

    async def caller(self, metadata: Metadata, peer: Peer) -> Caller:
        """Return whom the credential is of.

        Raises:
            Fault: CREDENTIALS_MISSING, there is none; CREDENTIALS_INVALID, it is not good, or there are several.
        """
        sent = sent_credential(metadata)
        names = peer_names(peer()) if self.certificates else None
        if sent is not None and names is not None:
            raise invalid_credentials("send a credential or a client certificate, not both")
        if self.certificates and names is not None:
            return self.certificates.caller(names)
        return await self._holder(sent)

    async def _holder(self, sent: SentKey | SentToken | None) -> Caller:
        match sent:
            case SentKey(text) if self.api_keys:
                return self.api_keys.caller(text)
            case SentToken(text) if self.tokens:
                return await self.tokens.caller(text)
            case None:
                raise Fault(
                    Reason.ERROR_REASON_CREDENTIALS_MISSING,
                    "send an API key or a token in `authorization` metadata: Bearer CREDENTIAL",
                )
        raise invalid_credentials("this server takes no credentials of this kind")


class LocalAuthenticator:
    """Takes everybody on this machine as trusted."""

    async def caller(self, metadata: Metadata, peer: Peer) -> Caller:  # noqa: ARG002 - the protocol's signature
        """Return the local caller.

        Raises:
            Fault: CREDENTIALS_INVALID, credentials were sent, which nothing here can check: whoever sends them
                believes that they matter.
        """
        if any(name in CARRIERS for name, _ in metadata):
            raise invalid_credentials("this server checks no credentials: send none")
        return LOCAL
