"""The listen addresses that the settings configure."""

from __future__ import annotations

from nomemory.server.api.identity.factory import check_credential_settings, requires_credentials
from nomemory.server.api.identity.tls import get_tls_files
from nomemory.server.runtime.exposure import ServerProtection, check_exposure
from nomemory.server.runtime.listen_address import (
    ListenAddress,
    ListenAddresses,
    get_http_address,
    parse_listen_address,
)
from nomemory.server.runtime.settings import Settings


def parse_listen_addresses(settings: Settings) -> ListenAddresses:
    """Return the listen addresses that the settings configure.

    Raises:
        ListenAddressError: an address is malformed, or is public without credentials and TLS.
        IdentitySettingsError: the credential settings are incomplete.
    """
    check_credential_settings(settings)
    http = _parse_address(address, settings) if (address := get_http_address(settings)) else None
    metrics = _parse_address(settings.metrics.listen, settings) if settings.metrics.listen else None
    return ListenAddresses(_parse_address(settings.server.listen, settings), http, metrics)


def _parse_address(text: str, settings: Settings) -> ListenAddress:
    address = parse_listen_address(text)
    credentials, tls = requires_credentials(settings), get_tls_files(settings) is not None
    check_exposure(address, ServerProtection(credentials, tls, settings.identity.insecure_plaintext))
    return address
