"""Conversion of HTTP headers to call metadata."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.types import Scope

from nomemory.server.api.call import REQUEST_ID, IncomingCall
from nomemory.server.api.http.request_id import get_scope_request_id
from nomemory.server.api.identity.caller import Metadata
from nomemory.server.faults import Fault, Reason

TRANSPORT: Final = "http"
TLS: Final = "tls"
"""The key of the connection's `ssl.SSLObject` in the state of the ASGI scope. It is None without TLS."""
_TIMEOUT: Final = "x-timeout-ms"
_TIMEOUT_PATTERN: Final = re.compile(r"\d{1,10}")


def build_incoming_call(scope: Scope, grpc_path: str) -> IncomingCall:
    """Return the incoming call that an HTTP request represents.

    Raises:
        Fault: MALFORMED_REQUEST, the timeout or a value of the metadata is malformed.
    """
    metadata, request_id = read_metadata(scope), get_scope_request_id(scope)
    return IncomingCall(
        grpc_path,
        TRANSPORT,
        (*metadata, (REQUEST_ID, request_id)),
        request_id,
        lambda: read_auth_context(scope),
        _parse_timeout_s(metadata),
    )


def read_metadata(scope: Scope) -> Metadata:
    """Return HTTP headers as call metadata.

    Values are UTF-8, or base64 if the name ends in `-bin`.

    Raises:
        Fault: MALFORMED_REQUEST, a value is not valid UTF-8 or base64.
    """
    return [
        (name.decode("latin-1"), _decode_binary(value) if name.endswith(b"-bin") else _decode_text(value))
        for name, value in scope["headers"]
    ]


def read_auth_context(scope: Scope) -> Mapping[str, Iterable[bytes]]:
    """Return the verified properties of the TLS peer, in the format of gRPC's `auth_context`."""
    tls: Any = scope["state"].get(TLS)  # `ssl.SSLObject`, or the type of uvloop
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return {"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(certificate).encode()]} if certificate else {}


def _parse_timeout_s(metadata: Metadata) -> float | None:
    for name, value in metadata:
        if name == _TIMEOUT:
            if not isinstance(value, str) or not _TIMEOUT_PATTERN.fullmatch(value):
                raise _build_malformed_metadata_fault(
                    f"{_TIMEOUT} must be an integer number of milliseconds, at most 10 digits"
                )
            return int(value) / 1000
    return None


def _decode_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _build_malformed_metadata_fault("header values must be UTF-8") from None


def _decode_binary(value: bytes) -> bytes:
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        raise _build_malformed_metadata_fault("values of headers whose names end in -bin must be base64") from None


def _build_malformed_metadata_fault(message: str) -> Fault:
    return Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, message)
