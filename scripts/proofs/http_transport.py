"""HTTP calls with serialized protobuf requests and replies."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import grpc
import httpx
from google.protobuf import json_format

from proofs.contract import CallOutcome, Metadata, RpcMethod
from proofs.http_requests import LINES, HttpRequest, encode_http_request

TIMEOUT_S = 20.0
_GRACE_S = 5.0
"""Seconds that the client waits beyond the timeout of a call."""
_KEEPALIVE_S = 2.0
"""Keep-alive time in seconds; shorter than the server's, which could close a connection during a request."""


class HttpTransport:
    """Thread-safe caller of RPC methods over HTTP.

    Args:
        url: http://HOST:PORT or https://HOST:PORT.
        authority: file of trusted CA certificates (PEM); None: those of the system.
    """

    def __init__(self, url: str, authority: Path | None = None) -> None:
        trusted = ssl.create_default_context(cafile=authority)
        limits = httpx.Limits(keepalive_expiry=_KEEPALIVE_S)
        self._client = httpx.Client(base_url=url, verify=trusted, limits=limits, timeout=TIMEOUT_S + _GRACE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def send(self, request: HttpRequest, timeout_s: float = TIMEOUT_S) -> httpx.Response:
        """Send a request.

        Raises:
            httpx.HTTPError: no response was received.
        """
        return self._client.request(
            request.verb,
            request.path,
            headers=[(name.encode(), value) for name, value in request.headers],
            content=request.body,
            timeout=timeout_s + _GRACE_S,
        )

    def call(self, method: RpcMethod, request: bytes, metadata: Metadata, timeout_s: float = TIMEOUT_S) -> CallOutcome:
        """Make a call and return its outcome; the status is UNKNOWN if the response does not conform to the API."""
        message = method.request_type.FromString(request)
        encoded = encode_http_request(method.descriptor, json_format.MessageToDict(message))
        headers = (*encoded.headers, *build_http_headers(metadata), ("x-timeout-ms", b"%d" % (1000 * timeout_s)))
        if method.descriptor.server_streaming:
            headers = (*headers, ("accept", LINES))
        began = time.perf_counter()
        try:
            response = self.send(HttpRequest(encoded.verb, encoded.path, headers, encoded.body), timeout_s)
        except httpx.TimeoutException as error:
            return _build_failed_outcome(grpc.StatusCode.DEADLINE_EXCEEDED, error, began)
        except httpx.HTTPError as error:
            return _build_failed_outcome(grpc.StatusCode.UNAVAILABLE, error, began)
        return parse_outcome(response, method, time.perf_counter() - began)


def serialize_response(response: httpx.Response) -> bytes:
    """Return the status, headers and body of a response."""
    head = "".join(f"{name}: {value}\n" for name, value in response.headers.items())
    return f"{response.status_code}\n{head}\n".encode("utf-8", "replace") + response.content


def parse_outcome(response: httpx.Response, method: RpcMethod, seconds: float) -> CallOutcome:
    """Return the outcome of a call; the status is UNKNOWN if the response does not conform to the API."""
    visible, is_from_server = serialize_response(response), "x-request-id" in response.headers
    try:
        replies = tuple(_decode_replies(response, method))
    except _CallError as error:
        return CallOutcome(error.code, visible, seconds, is_from_server, str(error))
    except (KeyError, TypeError, ValueError, json_format.ParseError) as error:
        details = f"unexpected response ({response.status_code}): {type(error).__name__}: {error}"
        return CallOutcome(grpc.StatusCode.UNKNOWN, visible, seconds, is_from_server, details)
    return CallOutcome(grpc.StatusCode.OK, visible, seconds, is_from_server, replies=replies)


class _CallError(Exception):
    """Raised for a response that is an API error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = grpc.StatusCode[error["code"]]


def _decode_replies(response: httpx.Response, method: RpcMethod) -> Iterator[bytes]:
    if response.is_error:
        raise _CallError(response.json()["error"])
    if method.descriptor.server_streaming:
        yield from (_decode_reply(json.loads(line), method) for line in response.content.splitlines())
    else:
        yield _decode_reply(response.json(), method)


def _decode_reply(reply: dict[str, Any], method: RpcMethod) -> bytes:
    if "error" in reply:
        raise _CallError(reply["error"])
    return json_format.ParseDict(reply, method.reply_type()).SerializeToString()


def build_http_headers(metadata: Metadata) -> Iterator[tuple[str, bytes]]:
    """Yield metadata as HTTP headers; binary values are base64-encoded, as in gRPC."""
    for name, value in metadata:
        yield name, base64.b64encode(value) if isinstance(value, bytes) else value.encode()


def _build_failed_outcome(code: grpc.StatusCode, error: Exception, began: float) -> CallOutcome:
    return CallOutcome(code, b"", time.perf_counter() - began, is_from_server=False, details=repr(error))
