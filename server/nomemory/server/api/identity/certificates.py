r"""Client certificates.

A certificate file maps names in client certificates to callers. The server reads the names from the certificate itself,
because some gRPC versions truncate the names of a peer at a NUL character.
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
from nomemory.server.api.identity.credentials import build_invalid_credentials_fault
from nomemory.server.api.identity.namespace import create_namespace
from nomemory.server.faults import Fault


class CertificateEntry(CallerRecord):
    """The mapping of a certificate name, such as `dns:…`, `uri:…`, `email:…` or `cn:…`, to a caller."""

    certificate: Annotated[str, Field(pattern=r"^(dns|uri|email|cn):[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$")]


class CertificateFile(BaseModel):
    """The content of a certificate file."""

    model_config = CallerRecord.model_config

    callers: tuple[CertificateEntry, ...]


class CertificateAuthenticator:
    """Authenticates services by their client certificates.

    Args:
        path: the file with the `CertificateEntry` records.

    Raises:
        IdentitySettingsError: the file cannot be read or is malformed.
    """

    def __init__(self, path: Path) -> None:
        kind = "client certificates"
        self._file = CredentialFile(path, lambda raw: parse_document(CertificateFile, raw, kind).callers, kind)

    def authenticate(self, names: frozenset[str]) -> Caller:
        """Return the service whose certificate entry matches one of the given names.

        Raises:
            Fault: CREDENTIALS_INVALID, no entry matches, or several entries match.
        """
        entries = [entry for entry in self._file.load() if entry.certificate in names]
        if len(entries) != 1:
            raise build_invalid_credentials_fault(
                f"the client certificate must match exactly 1 caller, but matches {len(entries)}"
            )
        entry = entries[0]
        return Caller(entry.name, entry.scopes, namespace=create_namespace(entry.namespace))


_CERTIFICATE: Final = "x509_pem_cert"
_KINDS: Final = {x509.DNSName: "dns", x509.UniformResourceIdentifier: "uri", x509.RFC822Name: "email"}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CACHE_SIZE: Final = 256


def read_peer_names(peer: Mapping[str, Iterable[bytes]]) -> frozenset[str] | None:
    """Return the names in the peer's verified certificate, such as `dns:chat.example`, or None without a certificate.

    Raises:
        Fault: CREDENTIALS_INVALID, the certificate is malformed, or a name has control characters.
    """
    return _read_names(b"".join(peer[_CERTIFICATE])) if _CERTIFICATE in peer else None


@lru_cache(_CACHE_SIZE)  # all calls of a connection have the same certificate
def _read_names(pem: bytes) -> frozenset[str]:
    try:
        names = frozenset(_iterate_names(x509.load_pem_x509_certificate(pem)))
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise _build_unreadable_certificate_fault() from None
    if any(_CONTROL.search(name) for name in names):
        raise _build_unreadable_certificate_fault()
    return names


def _iterate_names(certificate: x509.Certificate) -> Iterator[str]:
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        yield f"cn:{_decode_text(attribute.value)}"
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    for name in alternatives:
        if kind := _KINDS.get(type(name)):
            yield f"{kind}:{name.value}"


def _decode_text(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    raise _build_unreadable_certificate_fault()


def _build_unreadable_certificate_fault() -> Fault:
    return build_invalid_credentials_fault("the client certificate is malformed")
