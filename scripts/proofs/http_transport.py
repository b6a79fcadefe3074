"""Calls over HTTP with requests and replies in protobuf's binary format."""

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

from proofs.contract import Metadata, Method, Outcome
from proofs.http_requests import LINES, HttpRequest, http_request

TIMEOUT_S = 20.0
_GRACE_S = 5.0
"""How much longer than a call's timeout the client waits for the answer."""
_KEEPALIVE_S = 2.0
"""Shorter than the server's, which may close a connection while a request is on its way."""


class HttpTransport:
    """Makes calls to a server; several threads may use it.

    Args:
        url: http://HOST:PORT or https://HOST:PORT.
        authority: certificates (PEM) to trust; None: those of the system.
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
            httpx.HTTPError: no answer came.
        """
        return self._client.request(
            request.verb,
            request.path,
            headers=[(name.encode(), value) for name, value in request.headers],
            content=request.body,
            timeout=timeout_s + _GRACE_S,
        )

    def call(self, method: Method, request: bytes, metadata: Metadata, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Make a call and return its outcome; UNKNOWN if the answer is not one of the contract."""
        message = method.request_type.FromString(request)
        encoded = http_request(method.descriptor, json_format.MessageToDict(message))
        headers = (*encoded.headers, *http_headers(metadata), ("x-timeout-ms", b"%d" % (1000 * timeout_s)))
        if method.descriptor.server_streaming:
            headers = (*headers, ("accept", LINES))
        began = time.perf_counter()
        try:
            answer = self.send(HttpRequest(encoded.verb, encoded.path, headers, encoded.body), timeout_s)
        except httpx.TimeoutException as error:
            return _lost(grpc.StatusCode.DEADLINE_EXCEEDED, error, began)
        except httpx.HTTPError as error:
            return _lost(grpc.StatusCode.UNAVAILABLE, error, began)
        return outcome_of(answer, method, time.perf_counter() - began)


def visible_bytes(answer: httpx.Response) -> bytes:
    """Return all that the caller sees of an answer."""
    head = "".join(f"{name}: {value}\n" for name, value in answer.headers.items())
    return f"{answer.status_code}\n{head}\n".encode("utf-8", "replace") + answer.content


def outcome_of(answer: httpx.Response, method: Method, seconds: float) -> Outcome:
    """Return the outcome of a call; UNKNOWN if the answer is not one of the contract."""
    visible, is_from_server = visible_bytes(answer), "x-request-id" in answer.headers
    try:
        replies = tuple(_replies(answer, method))
    except _CallError as error:
        return Outcome(error.code, visible, seconds, is_from_server, str(error))
    except (KeyError, TypeError, ValueError, json_format.ParseError) as error:
        details = f"unexpected answer ({answer.status_code}): {type(error).__name__}: {error}"
        return Outcome(grpc.StatusCode.UNKNOWN, visible, seconds, is_from_server, details)
    return Outcome(grpc.StatusCode.OK, visible, seconds, is_from_server, replies=replies)


class _CallError(Exception):
    """The answer is an error of the contract."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = grpc.StatusCode[error["code"]]


def _replies(answer: httpx.Response, method: Method) -> Iterator[bytes]:
    if answer.is_error:
        raise _CallError(answer.json()["error"])
    if method.descriptor.server_streaming:
        yield from (_reply(json.loads(line), method) for line in answer.content.splitlines())
    else:
        yield _reply(answer.json(), method)


def _reply(reply: dict[str, Any], method: Method) -> bytes:
    if "error" in reply:
        raise _CallError(reply["error"])
    return json_format.ParseDict(reply, method.reply_type()).SerializeToString()


def http_headers(metadata: Metadata) -> Iterator[tuple[str, bytes]]:
    """Yield metadata as headers; bytes are encoded in base64, as gRPC does."""
    for name, value in metadata:
        yield name, base64.b64encode(value) if isinstance(value, bytes) else value.encode()


def _lost(code: grpc.StatusCode, error: Exception, began: float) -> Outcome:
    return Outcome(code, b"", time.perf_counter() - began, is_from_server=False, details=repr(error))
