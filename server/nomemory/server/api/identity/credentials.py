"""The credentials of a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nomemory.server.api.identity.caller import Metadata, values_of
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.startup_errors import StartupError

KEY_PREFIX: Final = "nm_"
"""What API keys begin with."""
AUTHORIZATION: Final = "authorization"
API_KEY: Final = "x-api-key"
CREDENTIAL_KEYS: Final = frozenset({AUTHORIZATION, API_KEY})
"""The metadata in which credentials travel."""


class IdentitySettingsError(StartupError):
    """The settings, or a file that they name, cannot be used; the text says what to do. It quotes no secret."""


def invalid_credentials(message: str) -> Fault:
    """Make the fault for credentials that are not good."""
    return Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, message)


@dataclass(frozen=True, slots=True)
class SentKey:
    """An API key, as it was sent."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SentToken:
    """A bearer token, as it was sent."""

    text: str = field(repr=False)


def sent_credential(metadata: Metadata) -> SentKey | SentToken | None:
    """Find the one credential in a call's metadata; None where there is none.

    Raises:
        Fault: CREDENTIALS_INVALID, there are several, or it is not of a form that is known.
    """
    bearers, keys = values_of(metadata, AUTHORIZATION), values_of(metadata, API_KEY)
    if len(bearers) + len(keys) > 1:
        raise invalid_credentials("send one credential, not several")
    if keys:
        return SentKey(_text(keys[0]))
    if bearers:
        return _bearer(_text(bearers[0]))
    return None


def _bearer(value: str) -> SentKey | SentToken:
    scheme, _, credential = value.partition(" ")
    if scheme.lower() != "bearer" or not credential or credential != credential.strip():
        raise invalid_credentials("`authorization` must be of the form: Bearer CREDENTIAL")
    return SentKey(credential) if credential.startswith(KEY_PREFIX) else SentToken(credential)


def _text(value: str | bytes) -> str:
    if not isinstance(value, str) or not value.strip():
        raise invalid_credentials("the credential is empty")
    return value
