"""A check that public listen addresses are protected by credentials and TLS."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError


@dataclass(frozen=True, slots=True)
class ServerProtection:
    """The protection of a server against access from other machines.

    Attributes:
        credentials: whether callers must authenticate.
        tls: whether the server terminates TLS.
        plaintext_accepted: whether the operator allows plaintext, because a proxy terminates TLS or the network is
            encrypted.
    """

    credentials: bool
    tls: bool
    plaintext_accepted: bool


def check_exposure(address: ListenAddress, protection: ServerProtection) -> None:
    """Raise an error if an address is reachable from other machines but not protected.

    Raises:
        ListenAddressError: credentials or TLS are missing.
    """
    if address.is_loopback():
        return
    if not protection.credentials:
        raise ListenAddressError(_WITHOUT_CREDENTIALS.format(address=address, port=address.port))
    if not protection.tls and not protection.plaintext_accepted:
        raise ListenAddressError(_IN_THE_CLEAR.format(address=address))


_WITHOUT_CREDENTIALS = """\
refusing to listen on {address} without authentication: other machines could connect. Do one of the following:
  - listen on loopback only: --listen 127.0.0.1:{port}
  - require API keys: export NOMEMORY_API_KEYS=keys.json; nomemory keys create --name chat --scope query
  - require JWTs: NOMEMORY_JWT_SECRET or NOMEMORY_JWT_JWKS, with NOMEMORY_JWT_ISSUER and NOMEMORY_JWT_AUDIENCE
  - require client certificates: NOMEMORY_TLS_CLIENT_CA and NOMEMORY_TLS_IDENTITIES
See docs/authentication.md."""


_IN_THE_CLEAR = """\
refusing to listen on {address} without TLS: credentials and messages would be sent unencrypted. Do one of the \
following:
  - enable TLS: NOMEMORY_TLS_CERT and NOMEMORY_TLS_KEY
  - if a proxy in front of the server terminates TLS: NOMEMORY_INSECURE_PLAINTEXT=true
See docs/authentication.md."""
