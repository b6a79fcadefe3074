"""Calls over HTTP: by the annotations and by Connect, in JSON and in the binary format."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format

from proofs.isolation.contract import Metadata, Method, Outcome
from proofs.isolation.http1 import Answer, HttpConnection, HttpRequest, NoAnswerError
from proofs.isolation.http_encoding import ENVELOPED, encoded
from proofs.isolation.transport import TIMEOUT_S

_OK = 200
_GRACE_S = 5.0
"""How long a server may take to say that a call's time is over."""
_UNUSED_S = 5.0
"""How long a connection may have been unused: the server may close an older one while a request is on its way."""
_HEAD_BYTES = 5
_ENDS = 0b10


class OddAnswerError(Exception):
    """An answer is not what the contract says."""


class _Refusal(Exception):  # noqa: N818 - it is one
    """An answer that is an error: its code and its sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = grpc.StatusCode[code.upper()]


class HttpTransport:
    """Makes calls, each thread on a connection of its own."""

    def __init__(self, target: str, authority: Path | None) -> None:
        self._target = target
        self._authority = authority
        self._own = threading.local()

    def call(self, method: Method, request: bytes, metadata: Metadata, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Make a call, whatever comes of it."""
        timeout = ("x-timeout-ms", b"%d" % (1000 * timeout_s))
        sent = encoded(method, request, metadata).with_headers(timeout)
        return self.ask(sent, method, timeout_s)

    def ask(self, sent: HttpRequest, method: Method, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Send a request as it is; return what comes of it as that of a call."""
        began = time.perf_counter()
        try:
            answer = self._connection().ask(sent, timeout_s + _GRACE_S)
        except TimeoutError as error:
            return _lost(grpc.StatusCode.DEADLINE_EXCEEDED, error, began)
        except (OSError, NoAnswerError) as error:
            return _lost(grpc.StatusCode.UNAVAILABLE, error, began)
        finally:
            self._own.used = time.monotonic()
        return outcome_of(answer, method, time.perf_counter() - began)

    def is_healthy(self, timeout_s: float) -> bool:
        """Return whether the server says in time that it serves."""
        try:
            return HttpConnection(self._target, self._authority).ask(_PROBE, timeout_s).status == _OK
        except (OSError, NoAnswerError):
            return False

    def _connection(self) -> HttpConnection:
        connection: HttpConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = HttpConnection(self._target, self._authority)
        elif time.monotonic() - self._own.used > _UNUSED_S:
            connection.close()
        return connection


_PROBE = HttpRequest("GET", b"/healthz", (("connection", b"close"),))


@contextmanager
def open_http(target: str, authority: Path | None) -> Iterator[HttpTransport]:
    """Open a transport of its own; as `Open`."""
    yield HttpTransport(target, authority)


def outcome_of(answer: Answer, method: Method, seconds: float) -> Outcome:
    """Return what an answer says as that of a call. UNKNOWN: it is not what the contract says."""
    told, has_id = answer.as_bytes(), bool(answer.header("x-request-id"))
    try:
        replies = tuple(_replies(answer, method))
    except _Refusal as refusal:
        return Outcome(refusal.code, told, seconds, has_id, str(refusal))
    except (OddAnswerError, KeyError, TypeError, ValueError, json_format.ParseError) as error:
        said = f"an odd answer ({answer.status}): {type(error).__name__}: {error}"
        return Outcome(grpc.StatusCode.UNKNOWN, told, seconds, has_id, said)
    return Outcome(grpc.StatusCode.OK, told, seconds, has_id, replies=replies)


def _lost(code: grpc.StatusCode, error: Exception, began: float) -> Outcome:
    return Outcome(code, b"", time.perf_counter() - began, is_from_server=False, details=str(error))


def _replies(answer: Answer, method: Method) -> Iterator[bytes]:
    media_type = answer.header("content-type").partition(";")[0].encode()
    if answer.status != _OK:
        raise _refusal(json.loads(answer.body))
    if media_type.startswith(ENVELOPED):
        yield from _in_envelopes(answer.body, method, media_type)
    elif media_type == b"text/event-stream":
        yield from _in_events(answer.body, method)
    elif media_type == b"application/x-ndjson":
        yield from (_reply(json.loads(line), method) for line in answer.body.splitlines())
    elif media_type == b"application/proto":
        yield answer.body
    else:
        yield _reply(json.loads(answer.body), method)


def _in_envelopes(body: bytes, method: Method, media_type: bytes) -> Iterator[bytes]:
    while body:
        flags, size = body[0], int.from_bytes(body[1:_HEAD_BYTES], "big")
        raw, body = body[_HEAD_BYTES : _HEAD_BYTES + size], body[_HEAD_BYTES + size :]
        if flags == _ENDS:
            end = json.loads(raw)
            if "error" in end:
                raise _refusal(end["error"])
            return
        yield _reply(json.loads(raw), method) if media_type.endswith(b"json") else raw
    raise OddAnswerError("a stream without an end")


def _in_events(body: bytes, method: Method) -> Iterator[bytes]:
    for block in body.split(b"\n\n"):
        lines = dict(line.partition(b": ")[::2] for line in block.splitlines() if not line.startswith(b":"))
        if lines.get(b"event") == b"end":
            return
        if b"data" in lines:
            yield _reply(json.loads(lines[b"data"]), method)
    raise OddAnswerError("a stream without an end")


def _reply(given: dict[str, Any], method: Method) -> bytes:
    if "error" in given:
        raise _refusal(given)
    return json_format.ParseDict(given, method.reply_type()).SerializeToString()


def _refusal(given: dict[str, Any]) -> _Refusal:
    """Return an error; that of Connect stands alone."""
    error = given.get("error", given)
    return _Refusal(error["code"], error["message"])
