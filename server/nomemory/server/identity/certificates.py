"""Callers with client certificates: services. A small file says what each certificate's name is good for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nomemory.server.identity.caller import Caller
from nomemory.server.identity.credentials import invalid_credentials
from nomemory.server.identity.namespace import NamespaceName, namespace_of
from nomemory.server.identity.scope import Scope
from nomemory.server.identity.settings_error import IdentitySettingsError
from nomemory.server.identity.watched_file import FileUnusableError, WatchedFile

_STRICT: Final = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class CertificateEntry(BaseModel):
    """A name in certificates, as `dns:…`, `uri:…`, `email:…` or `cn:…`, and what it is good for."""

    model_config = _STRICT

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    certificate: Annotated[str, Field(pattern=r"^(dns|uri|email|cn):[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$")]
    scopes: frozenset[Scope]
    namespace: NamespaceName | None = None


class CertificateFile(BaseModel):
    """The file."""

    model_config = _STRICT

    callers: tuple[CertificateEntry, ...]


class Certificates:
    """The callers of a file, which is read again whenever it changes.

    Args:
        path: the file.

    Raises:
        IdentitySettingsError: it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path, _parse)
        try:
            self._file.content()
        except FileUnusableError as error:
            raise IdentitySettingsError(str(error)) from None

    def caller(self, names: frozenset[str]) -> Caller:
        """Return the service whose certificate has these names.

        Raises:
            Fault: CREDENTIALS_INVALID, no entry has one of them, or several entries have.
        """
        found = [entry for entry in self._entries() if entry.certificate in names]
        if len(found) != 1:
            raise invalid_credentials("this client certificate names no caller, or more than one")
        return Caller(found[0].name, found[0].scopes, namespace=namespace_of(found[0].namespace))

    def _entries(self) -> tuple[CertificateEntry, ...]:
        try:
            return self._file.content().callers
        except FileUnusableError:
            raise invalid_credentials("client certificates cannot be checked at the moment") from None


def _parse(raw: bytes) -> CertificateFile:
    try:
        return CertificateFile.model_validate_json(raw)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, fault["loc"])) or "the whole" for fault in error.errors()[:3])
        raise ValueError(f"is not a file of certificates' names: {places}") from None
