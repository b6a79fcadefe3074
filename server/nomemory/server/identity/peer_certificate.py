"""The names in the certificate of a connection's other end.

They are read out of the certificate itself. gRPC's own properties of a peer hand names over as texts that end at a NUL
in some versions, so that `chat.internal`, a NUL and `.evil` would be `chat.internal`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from nomemory.server.identity.credentials import invalid_credentials

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
