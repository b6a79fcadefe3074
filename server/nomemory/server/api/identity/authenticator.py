"""Authentication of callers, with credentials or as local callers without credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nomemory.server.api.identity.api_keys import ApiKeyAuthenticator
from nomemory.server.api.identity.caller import LOCAL, Caller, Metadata
from nomemory.server.api.identity.certificates import CertificateAuthenticator, read_peer_names
from nomemory.server.api.identity.credentials import (
    CREDENTIAL_KEYS,
    SentApiKey,
    SentBearerToken,
    build_invalid_credentials_fault,
    read_credential,
)
from nomemory.server.api.identity.tokens import TokenAuthenticator
from nomemory.server.faults import Fault, Reason

AuthContext = Callable[[], Mapping[str, Iterable[bytes]]]
"""Returns the properties of the TLS peer in the format of gRPC's `auth_context`."""


class Authenticator(Protocol):
    """Authenticates callers."""

    async def authenticate(self, metadata: Metadata, auth_context: AuthContext) -> Caller:
        """Return the caller that the credentials of a call identify.

        Raises:
            Fault: CREDENTIALS_MISSING or CREDENTIALS_INVALID.
        """


@dataclass(frozen=True, slots=True)
class CredentialAuthenticator:
    """Authenticates callers by the credential that they send.

    Each attribute authenticates one kind of credential; None if the settings do not configure that kind.
    """

    api_keys: ApiKeyAuthenticator | None
    tokens: TokenAuthenticator | None
    certificates: CertificateAuthenticator | None

    async def authenticate(self, metadata: Metadata, auth_context: AuthContext) -> Caller:
        """Return the caller that the credential in the metadata or the TLS connection belongs to.

        Raises:
            Fault: CREDENTIALS_MISSING, no credential was sent; CREDENTIALS_INVALID, the credential is invalid, or
                several were sent.
        """
        sent = read_credential(metadata)
        names = read_peer_names(auth_context()) if self.certificates else None
        if sent is not None and names is not None:
            raise build_invalid_credentials_fault("send a credential or a client certificate, not both")
        if self.certificates and names is not None:
            return self.certificates.authenticate(names)
        return await self._find_caller(sent)

    async def _find_caller(self, sent: SentApiKey | SentBearerToken | None) -> Caller:
        match sent:
            case SentApiKey(text) if self.api_keys:
                return self.api_keys.authenticate(text)
            case SentBearerToken(text) if self.tokens:
                return await self.tokens.authenticate(text)
            case None:
                raise Fault(
                    Reason.ERROR_REASON_CREDENTIALS_MISSING,
                    "send an API key or a token in `authorization` metadata: Bearer CREDENTIAL",
                )
        sent_kind = "API keys" if isinstance(sent, SentApiKey) else "tokens"
        raise build_invalid_credentials_fault(f"this server accepts {self._describe_accepted_kinds()}, not {sent_kind}")

    def _describe_accepted_kinds(self) -> str:
        kinds = {"API keys": self.api_keys, "tokens": self.tokens, "client certificates": self.certificates}
        return " and ".join(kind for kind, authenticator in kinds.items() if authenticator)


class LocalAuthenticator:
    """Accepts every caller that sends no credentials, on servers that listen on loopback addresses only."""

    async def authenticate(self, metadata: Metadata, auth_context: AuthContext) -> Caller:  # noqa: ARG002 - the protocol's signature
        """Return the local caller.

        Raises:
            Fault: CREDENTIALS_INVALID, the call has credentials, which this server cannot verify.
        """
        if any(name in CREDENTIAL_KEYS for name, _ in metadata):
            raise build_invalid_credentials_fault("this server has no credentials configured: send no credentials")
        return LOCAL
