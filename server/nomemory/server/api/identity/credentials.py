"""The credentials of a call, and the files that say which are good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nomemory.server.api.identity.caller import Metadata, Scope, values_of
from nomemory.server.api.identity.namespace import NamespaceName
from nomemory.server.api.identity.watched_file import FileUnusableError, WatchedFile
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.startup_errors import CannotStartError

KEY_PREFIX: Final = "nm_"
"""What API keys begin with."""
AUTHORIZATION: Final = "authorization"
API_KEY: Final = "x-api-key"
CARRIERS: Final = frozenset({AUTHORIZATION, API_KEY})
"""The metadata in which credentials travel."""


class IdentitySettingsError(CannotStartError):
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


_Content = TypeVar("_Content")


class CredentialFile(Generic[_Content]):
    """A file that says which credentials are good now. It is read again whenever it changes.

    Args:
        path: the file.
        parse: reads its bytes; raises ValueError where they make no sense, in words that quote nothing of them.
        kind: what callers are told that cannot be checked while the file is unusable.
        advice: what to do about a file that cannot be used at first.

    Raises:
        IdentitySettingsError: it cannot be used.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], _Content], kind: str, advice: str = "") -> None:
        self._file = WatchedFile(path, parse)
        self._kind = kind
        try:
            self._file.content()
        except FileUnusableError as error:
            raise IdentitySettingsError(f"{error}{advice}") from None

    def content(self) -> _Content:
        """Return what the file says.

        Raises:
            Fault: CREDENTIALS_INVALID, it has become unusable.
        """
        try:
            return self._file.content()
        except FileUnusableError:
            raise invalid_credentials(f"{self._kind} cannot be checked at the moment") from None


class CallerRecord(BaseModel):
    """What a file says of a service: its name, what it may do, and its namespace."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    scopes: frozenset[Scope]
    namespace: NamespaceName | None = None


_Document = TypeVar("_Document", bound=BaseModel)


def parse_document(document: type[_Document], raw: bytes, what: str) -> _Document:
    """Read a file of JSON.

    Raises:
        ValueError: it is not a file of that; names the faulty places.
    """
    try:
        return document.model_validate_json(raw)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, fault["loc"])) or "the whole" for fault in error.errors()[:3])
        raise ValueError(f"is not a file of {what}: {places}") from None
