"""HTTP/1.1 by hand: requests as they are written, and answers as they come."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from proofs.isolation.http2 import connect

Header = tuple[str, bytes]


class NoAnswerError(Exception):
    """The connection ended, or what came is no answer."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. `headers` come behind `host` and before `content-length`, as they are."""

    verb: str
    path: bytes
    headers: tuple[Header, ...] = ()
    body: bytes | None = None
    host: bytes = b"localhost"
    version: bytes = b"HTTP/1.1"

    def with_headers(self, *more: Header) -> HttpRequest:
        """Return it with more headers."""
        return replace(self, headers=(*self.headers, *more))

    def header(self, name: str) -> bytes:
        """Return the first value of a header; empty: there is none."""
        return next((value for key, value in self.headers if key == name), b"")

    def as_bytes(self) -> bytes:
        """Return what is sent."""
        line = self.verb.encode() + b" " + self.path + b" " + self.version
        length = () if self.body is None else (("content-length", b"%d" % len(self.body)),)
        pairs = (("host", self.host), *self.headers, *length)
        return b"\r\n".join([line, *(name.encode() + b": " + value for name, value in pairs), b"", self.body or b""])


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        """Return the first value of a header; empty: there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    def as_bytes(self) -> bytes:
        """Return all that the caller gets to see."""
        head = "".join(f"{name}: {value}\n" for name, value in self.headers)
        return f"{self.status}\n{head}\n".encode("utf-8", "replace") + self.body


class HttpConnection:
    """A connection that is used again as long as the server keeps it."""

    def __init__(self, target: str, authority: Path | None = None) -> None:
        self._target = target
        self._tls = ssl.create_default_context(cafile=authority) if authority else None
        self._socket: socket.socket | None = None

    def ask(self, request: HttpRequest, timeout_s: float) -> Answer:
        """Send a request and read its answer.

        Raises:
            TimeoutError: nothing came for so many seconds.
            NoAnswerError: there is none.
            OSError: nobody listens.
        """
        opened = self._socket or self._opened()
        try:
            opened.settimeout(timeout_s)
            return self._asked(opened, request)
        except TimeoutError:
            self.close()
            raise
        except (HTTPException, OSError, ValueError) as error:
            self.close()
            raise NoAnswerError(f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        """End it; the next request opens another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _asked(self, opened: socket.socket, request: HttpRequest) -> Answer:
        with suppress(BrokenPipeError, ConnectionResetError):  # the server may have seen enough, and have answered
            opened.sendall(request.as_bytes())
        answer = HTTPResponse(opened, method=request.verb)
        try:
            answer.begin()
            body = answer.read()
            if answer.will_close:
                self.close()
            return Answer(answer.status, answer.getheaders(), body)
        finally:
            answer.close()

    def _opened(self) -> socket.socket:
        opened = connect(self._target)
        if self._tls is not None:
            opened = self._tls.wrap_socket(opened, server_hostname=self._target.rpartition(":")[0])
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = opened
        return opened
