"""One request and its answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from typing import Any, Final

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.caller import Metadata
from nomemory.server.rpc.call import REQUEST_ID, request_id_of
from nomemory.server.web.connection import Connection
from nomemory.server.web.errors import Headers

Scope = MutableMapping[str, Any]
"""ASGI's own description of a request."""
_REQUEST_ID: Final = REQUEST_ID.encode()
_TIMEOUT: Final = re.compile(r"\d{1,10}")
_AT_ONCE_BYTES: Final = 65_536
"""What a connection's buffer takes without anybody having to wait."""
_COUNTED_BYTES: Final = 1 << 20
"""The bytes of a long body are counted by so many."""
_DISCARDED_S: Final = 1.0
"""What is read of a body that nobody wants: a client that is cut off while it sends may not see its answer."""


class Exchange:
    """One request and its answer.

    Args:
        scope: ASGI's description of the request.
        receive: ASGI's way to read its body.
        send: ASGI's way to answer.
        holding: counts the bytes of the body while they are held, as `Bounds.holding`.

    Attributes:
        verb: `GET`, `POST` and so on.
        raw_path: the path, not decoded.
        query: the query, not decoded.
        connection: the one that it came on.
        request_id: the client's own, or a random one.
        common: headers of every answer.
    """

    # Any: ASGI's messages are dicts.
    def __init__(
        self,
        scope: Scope,
        receive: Any,  # noqa: ANN401
        send: Any,  # noqa: ANN401
        holding: Callable[[int], AbstractContextManager[None]],
    ) -> None:
        self.verb: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.connection: Connection = scope["state"]["connection"]
        self.common: Headers = ()
        self.is_answered = False
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.request_id = request_id_of(
            [(REQUEST_ID, value.decode("latin-1")) for name, value in self._headers if name == _REQUEST_ID]
        )
        self._receive = receive
        self._send = send
        self._holding = holding
        self._is_read = not self.has_body

    def header(self, name: bytes) -> str:
        """Return the value of a header that comes at most once; empty: there is none.

        Raises:
            Fault: MALFORMED_REQUEST, it comes more than once, or is not UTF-8.
        """
        values = [value for key, value in self._headers if key == name]
        if len(values) > 1:
            raise _malformed(f"the header {name.decode()} comes more than once")
        return _text(values[0]) if values else ""

    @property
    def has_body(self) -> bool:
        """Whether a body follows."""
        return any(
            (name == b"content-length" and value.strip(b"0")) or name == b"transfer-encoding"
            for name, value in self._headers
        )

    def metadata(self) -> Metadata:
        """Return the headers as a call's metadata.

        Raises:
            Fault: MALFORMED_REQUEST, a value is not UTF-8, or not base64 where its name ends in `-bin`.
        """
        found: list[tuple[str, str | bytes]] = [
            (name.decode("latin-1"), _binary(value) if name.endswith(b"-bin") else _text(value))
            for name, value in self._headers
        ]
        found.append((REQUEST_ID, self.request_id))
        return found

    def timeout_s(self) -> float | None:
        """Return what the client gives the call; None: it says nothing.

        Raises:
            Fault: MALFORMED_REQUEST, it is not whole milliseconds.
        """
        given = self.header(b"x-timeout-ms") or self.header(b"connect-timeout-ms")
        if given and not _TIMEOUT.fullmatch(given):
            raise _malformed("x-timeout-ms must be whole milliseconds, of at most 10 digits")
        return int(given) / 1000 if given else None

    def auth(self) -> Mapping[str, Iterable[bytes]]:
        """Return the properties of the connection's other end, as gRPC's `auth_context` has them."""
        tls = self.connection.transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None  # the handshake has checked it
        return {"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(certificate).encode()]} if certificate else {}

    @asynccontextmanager
    async def body(self, most: int) -> AsyncIterator[bytes]:
        """Read the body; what it takes is counted until the context is left.

        Raises:
            Fault: REQUEST_TOO_LARGE; OVERLOADED, there is no room for it.
        """
        refuse_long(int(self.header(b"content-length").lstrip("0") or 0), most)
        parts: list[bytes] = []
        size = counted = 0
        with ExitStack() as held:
            async for part in self.parts():
                size += len(part)
                refuse_long(size, most)
                if size - counted > _AT_ONCE_BYTES:
                    held.enter_context(self._holding(_COUNTED_BYTES))
                    counted += _COUNTED_BYTES
                parts.append(part)
            yield b"".join(parts)

    async def parts(self) -> AsyncIterator[bytes]:
        """Return the body as it comes."""
        while not self._is_read:
            message = await self._receive()
            if message["type"] != "http.request":
                raise asyncio.CancelledError  # the client has gone
            self._is_read = not message["more_body"]
            yield message["body"]

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer."""
        if not self._is_read:
            await self._discard()
        await self.start(status, (*headers, (b"content-length", b"%d" % len(body))))
        if len(body) > _AT_ONCE_BYTES:
            await self.send(body)
            body = b""  # what ends the answer waits until the client has taken what is before it
        await self.end(body)

    async def start(self, status: int, headers: Headers) -> None:
        """Begin to answer; the connection is not used again if it has the rest of a body in it."""
        self.is_answered = True
        if not self._is_read:
            headers = (*headers, (b"connection", b"close"))
        named = (_REQUEST_ID, self.request_id.encode())
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self.common, named]})

    async def send(self, part: bytes) -> None:
        """Go on with the answer, once the client has taken most of what is before it."""
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def end(self, part: bytes = b"") -> None:
        """End the answer."""
        await self._send({"type": "http.response.body", "body": part, "more_body": False})

    async def _discard(self) -> None:
        if any(name == b"expect" for name, _ in self._headers):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARDED_S):
                async for _ in self.parts():
                    pass


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


def refuse_long(size: int, most: int) -> None:
    """Refuse a request, or one of several in a body, that has more bytes than it may have.

    Raises:
        Fault: REQUEST_TOO_LARGE.
    """
    if size > most:
        raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, f"the request is larger than {most} bytes")
