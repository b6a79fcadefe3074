"""Refuse to listen beyond this machine without credentials and TLS."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection of a server: credentials and TLS."""

    credentials: bool
    tls: bool
    plaintext_accepted: bool


def check_exposure(address: ListenAddress, protection: Protection) -> None:
    """Check that an address that others can reach is protected. A loopback address need not be.

    Raises:
        ListenAddressError: it is not; says what to do.
    """
    if address.is_loopback():
        return
    if not protection.credentials:
        raise ListenAddressError(_WITHOUT_CREDENTIALS.format(address=address, port=address.port))
    if not protection.tls and not protection.plaintext_accepted:
        raise ListenAddressError(_IN_THE_CLEAR.format(address=address))


_WITHOUT_CREDENTIALS = """\
refusing to listen on {address}: others could reach it, and nobody would be asked who they are. Do one of these:
  - listen on this machine only: --listen 127.0.0.1:{port}
  - give your services API keys: export NOMEMORY_API_KEYS=keys.json; nomemory keys create --name chat --scope query
  - take your users' tokens: NOMEMORY_JWT_SECRET or NOMEMORY_JWT_JWKS, with NOMEMORY_JWT_ISSUER and
    NOMEMORY_JWT_AUDIENCE; or client certificates: NOMEMORY_TLS_CLIENT_CA and NOMEMORY_TLS_IDENTITIES
docs/authentication.md tells more."""


_IN_THE_CLEAR = """\
refusing to listen on {address}: credentials and messages would travel in the clear. Do one of these:
  - serve TLS: NOMEMORY_TLS_CERT and NOMEMORY_TLS_KEY
  - say that something in front of the server ends TLS: NOMEMORY_INSECURE_PLAINTEXT=true
docs/authentication.md tells more."""
