"""The headers of a request as the metadata of a call."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.types import Scope

from nomemory.server.api.call import REQUEST_ID, IncomingCall
from nomemory.server.api.http.request_id import request_id_in
from nomemory.server.api.identity.caller import Metadata
from nomemory.server.faults import Fault, Reason

TRANSPORT: Final = "http"
TLS: Final = "tls"
"""The key of a connection's `ssl.SSLObject` in the state of a request's scope; None: it is not encrypted."""
_TIMEOUT: Final = "x-timeout-ms"
_TIMEOUT_FORM: Final = re.compile(r"\d{1,10}")


def incoming_call(scope: Scope, grpc_path: str) -> IncomingCall:
    """Return a request as the pipeline takes it.

    Args:
        scope: ASGI's description of the request.
        grpc_path: the path of the method over gRPC.

    Raises:
        Fault: MALFORMED_REQUEST, a header cannot be read.
    """
    metadata, request_id = metadata_of(scope), request_id_in(scope)
    return IncomingCall(
        grpc_path,
        TRANSPORT,
        (*metadata, (REQUEST_ID, request_id)),
        request_id,
        lambda: auth_context(scope),
        _timeout_s(metadata),
    )


def metadata_of(scope: Scope) -> Metadata:
    """Return the headers. Values are UTF-8; those whose name ends in `-bin` are bytes in base64.

    Raises:
        Fault: MALFORMED_REQUEST, a value is not.
    """
    return [
        (name.decode("latin-1"), _binary(value) if name.endswith(b"-bin") else _text(value))
        for name, value in scope["headers"]
    ]


def auth_context(scope: Scope) -> Mapping[str, Iterable[bytes]]:
    """Return the properties of the TLS peer, as gRPC's `auth_context` has them. The handshake has verified them."""
    tls: Any = scope["state"].get(TLS)  # `ssl.SSLObject`; uvloop has a type of its own
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return {"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(certificate).encode()]} if certificate else {}


def _timeout_s(metadata: Metadata) -> float | None:
    for name, value in metadata:
        if name == _TIMEOUT:
            if not isinstance(value, str) or not _TIMEOUT_FORM.fullmatch(value):
                raise _malformed(f"{_TIMEOUT} must be whole milliseconds, of at most 10 digits")
            return int(value) / 1000
    return None


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _malformed("a header is not UTF-8") from None


def _binary(value: bytes) -> bytes:
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        raise _malformed("a header whose name ends in -bin must be base64") from None


def _malformed(message: str) -> Fault:
    return Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, message)
