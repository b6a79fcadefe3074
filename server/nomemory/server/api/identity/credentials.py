"""Extraction of the credential from call metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nomemory.server.api.identity.caller import Metadata, get_metadata_values
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.startup_errors import StartupError

KEY_PREFIX: Final = "nm_"
"""The prefix of all API keys."""
AUTHORIZATION: Final = "authorization"
API_KEY: Final = "x-api-key"
CREDENTIAL_KEYS: Final = frozenset({AUTHORIZATION, API_KEY})
"""The metadata keys of credentials."""


class IdentitySettingsError(StartupError):
    """A setting for credentials is invalid, or its file cannot be used.

    The message of the error contains no secrets.
    """


def build_invalid_credentials_fault(message: str) -> Fault:
    """Return a CREDENTIALS_INVALID fault with a message for the caller."""
    return Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, message)


@dataclass(frozen=True, slots=True)
class SentApiKey:
    """An API key that a caller sent in call metadata."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SentBearerToken:
    """A bearer token that a caller sent in call metadata."""

    text: str = field(repr=False)


def read_credential(metadata: Metadata) -> SentApiKey | SentBearerToken | None:
    """Return the credential in call metadata, or None if there is no credential.

    Raises:
        Fault: CREDENTIALS_INVALID, the metadata contains several credentials or a malformed one.
    """
    bearers, keys = get_metadata_values(metadata, AUTHORIZATION), get_metadata_values(metadata, API_KEY)
    if len(bearers) + len(keys) > 1:
        raise build_invalid_credentials_fault(f"send exactly 1 credential, got {len(bearers) + len(keys)}")
    if keys:
        return SentApiKey(_decode_text(keys[0]))
    if bearers:
        return _parse_bearer(_decode_text(bearers[0]))
    return None


def _parse_bearer(value: str) -> SentApiKey | SentBearerToken:
    scheme, _, credential = value.partition(" ")
    if scheme.lower() != "bearer" or not credential or credential != credential.strip():
        raise build_invalid_credentials_fault("`authorization` must have the form: Bearer CREDENTIAL")
    return SentApiKey(credential) if credential.startswith(KEY_PREFIX) else SentBearerToken(credential)


def _decode_text(value: str | bytes) -> str:
    if not isinstance(value, str) or not value.strip():
        raise build_invalid_credentials_fault("the credential is empty: send an API key or a token")
    return value
