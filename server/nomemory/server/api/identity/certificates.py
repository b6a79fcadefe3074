"""Callers with client certificates: services. A small file says what each certificate's name is good for.

Names are read out of the certificate itself. gRPC's own properties of a peer hand names over as texts that end at a NUL
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
from pydantic import BaseModel, Field

from nomemory.server.api.identity.caller import Caller
from nomemory.server.api.identity.credential_file import CallerRecord, CredentialFile, parse_document
from nomemory.server.api.identity.credentials import invalid_credentials
from nomemory.server.api.identity.namespace import namespace_of
from nomemory.server.faults import Fault


class CertificateEntry(CallerRecord):
    """A name in certificates, as `dns:…`, `uri:…`, `email:…` or `cn:…`, and what it is good for."""

    certificate: Annotated[str, Field(pattern=r"^(dns|uri|email|cn):[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$")]


class CertificateFile(BaseModel):
    """The file."""

    model_config = CallerRecord.model_config

    callers: tuple[CertificateEntry, ...]


class CertificateAuthenticator:
    """The callers of a file.

    Args:
        path: the file.

    Raises:
        IdentitySettingsError: it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        what = "certificates' names"
        self._file = CredentialFile(
            path, lambda raw: parse_document(CertificateFile, raw, what).callers, "client certificates"
        )

    def authenticate(self, names: frozenset[str]) -> Caller:
        """Return the service whose certificate has these names.

        Raises:
            Fault: CREDENTIALS_INVALID, no entry has one of them, or several entries have.
        """
        found = [entry for entry in self._file.content() if entry.certificate in names]
        if len(found) != 1:
            raise invalid_credentials("this client certificate names no caller, or more than one")
        return Caller(found[0].name, found[0].scopes, namespace=namespace_of(found[0].namespace))


_CERTIFICATE: Final = "x509_pem_cert"
_KINDS: Final = {x509.DNSName: "dns", x509.UniformResourceIdentifier: "uri", x509.RFC822Name: "email"}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_REMEMBERED: Final = 256


def peer_names(peer: Mapping[str, Iterable[bytes]]) -> frozenset[str] | None:
    """Return the names in the certificate of a connection's other end, each with its kind: `dns:chat.example`.

    They come from a certificate that the handshake has checked. None where there was none.

    Raises:
        Fault: CREDENTIALS_INVALID, a name has control characters, or the certificate cannot be read.
    """
    return _names_in(b"".join(peer[_CERTIFICATE])) if _CERTIFICATE in peer else None


@lru_cache(_REMEMBERED)  # a connection shows the same certificate with every call
def _names_in(pem: bytes) -> frozenset[str]:
    try:
        names = frozenset(_names(x509.load_pem_x509_certificate(pem)))
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise _unreadable() from None
    if any(_CONTROL.search(name) for name in names):
        raise _unreadable()
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
    raise _unreadable()


def _unreadable() -> Fault:
    return invalid_credentials("the names in this client certificate cannot be read")
