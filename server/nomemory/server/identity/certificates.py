"""Callers with client certificates: services. A small file says what each certificate's name is good for.

The names in the certificate of a connection's other end.

They are read out of the certificate itself. gRPC's own properties of a peer hand names over as texts that end at a NUL
in some versions, so that `chat.internal`, a NUL and `.evil` would be `chat.internal`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final

from cryptography import x509
from cryptography.x509.oid import NameOID
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nomemory.server.identity.caller import Caller, Scope
from nomemory.server.identity.credentials import invalid_credentials
from nomemory.server.identity.half_configuration import IdentitySettingsError
from nomemory.server.identity.namespace import NamespaceName, namespace_of
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


_CERTIFICATE: Final = "x509_pem_cert"
_KINDS: Final = {x509.DNSName: "dns", x509.UniformResourceIdentifier: "uri", x509.RFC822Name: "email"}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_REMEMBERED: Final = 256


class _UnreadableError(Exception):
    """The certificate's names cannot be relied on."""


def peer_names(peer: Mapping[str, Iterable[bytes]]) -> frozenset[str] | None:
    """Return the names in the certificate of a connection's other end, each with its kind: `dns:chat.example`.

    They come from a certificate that the handshake has checked. None where there was none.

    Raises:
        Fault: CREDENTIALS_INVALID, a name has control characters, or the certificate cannot be read.
    """
    if _CERTIFICATE not in peer:
        return None
    try:
        return _names_in(b"".join(peer[_CERTIFICATE]))
    except _UnreadableError:
        raise invalid_credentials("the names in this client certificate cannot be read") from None


@lru_cache(_REMEMBERED)  # a connection shows the same certificate with every call
def _names_in(pem: bytes) -> frozenset[str]:
    try:
        names = frozenset(_names(x509.load_pem_x509_certificate(pem)))
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise _UnreadableError from None
    if any(_CONTROL.search(name) for name in names):
        raise _UnreadableError
    return names


def _names(certificate: x509.Certificate) -> Iterator[str]:
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        yield f"cn:{_text(attribute.value)}"
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    for name in alternatives:
        if kind := _KINDS.get(type(name)):
            yield f"{kind}:{name.value}"


def _text(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    raise _UnreadableError
