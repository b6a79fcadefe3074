"""One connection: uvicorn's protocol, with the limits that it does not have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from nomemory.server.settings import Settings

_UPGRADE = b"upgrade"
_BAD_REQUEST = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
)
_BAD_REQUEST_BODY = (
    b'{"error":{"code":"INVALID_ARGUMENT","message":"the request is not valid HTTP, or its head is too large",'
    b'"details":[]}}'
)


class _HeadTooLargeError(Exception):
    """A request has too many bytes before its body, or too many requests are sent ahead."""


class _TunnelError(Exception):
    """A request asks for a tunnel."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a connection may do. `worn_s` is the age from which it is not used again; None: any."""

    head_max_bytes: int
    head_s: float
    idle_s: float
    pipelined_max: int
    unread_s: float
    worn_s: float | None

    @classmethod
    def of(cls, settings: Settings, *, is_shared: bool) -> ConnectionLimits:
        """Return the limits of the settings."""
        return cls(
            settings.http.head_max_bytes,
            settings.http.head_s,
            settings.connections.connection_idle_s,
            settings.http.pipelined_max,
            settings.connections.unread_s,
            settings.workers.connection_s if is_shared else None,
        )


class Connection(HttpToolsProtocol):
    """One connection.

    Args:
        config: uvicorn's own.
        state: uvicorn's own.
        limits: what the connection may do.
        admits: returns whether there is room for one more.

    Attributes:
        peer: the other end, as gRPC names one: `ipv4:127.0.0.1:40000`.
        opened: when it was, as the loop tells time.
    """

    def __init__(
        self, config: Config, state: ServerState, limits: ConnectionLimits, admits: Callable[[], bool]
    ) -> None:
        super().__init__(config, state, {"connection": self})
        self.peer = ""
        self._limits = limits
        self._admits = admits
        self._task: asyncio.Task[Any] | None = None
        self.opened = self._since = self._taken = self.loop.time()
        self._unread = 0
        self._is_in_head = False
        self._head_bytes = self._unparsed_bytes = 0
        self._is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin, if there is room."""
        has_room = self._admits()
        super().connection_made(transport)
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.peer = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        if not has_room:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the call that is being answered: nobody waits for it any more."""
        self._is_lost = True
        super().connection_lost(exc)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and hold what the parser keeps to the limit of a head."""
        if self._is_lost or self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        # The parser tells of a header once it is whole, be it before a body or behind one.
        self._unparsed_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("")
            return
        if self._unparsed_bytes > self._limits.head_max_bytes:
            self.send_400_response("")

    def _parse(self, data: bytes) -> None:
        """Parse bytes. A request to change the protocol is taken as if it did not ask for that, as HTTP allows."""
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)  # the one before may take nothing more
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """Return the head that was parsed last, without what made the parser take the rest for another protocol."""
        line = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        headers = [b"%b: %b" % header for header in self.headers if header[0] != _UPGRADE]
        return b"\r\n".join([line, *headers, b"", b""])

    def on_message_begin(self) -> None:
        """Begin with the head of a request."""
        self._is_in_head = True
        self._head_bytes = self._unparsed_bytes = 0
        self._since = self.loop.time()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the request's line."""
        self._take(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. What stands behind a body is not one: nobody in front of the server has looked at it."""
        self._take(len(name) + len(value) + 4)
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer, or let the request wait for the answers before it."""
        if self.parser.should_upgrade():
            if not any(name == _UPGRADE for name, _ in self.headers):
                raise _TunnelError
            return  # it comes again without the header
        self._is_in_head = False
        if len(self.pipeline) >= self._limits.pipelined_max and self.is_working():
            raise _HeadTooLargeError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body."""
        self._unparsed_bytes = 0
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words
        """Refuse what is no request. Where another one is being answered there is no room for a refusal."""
        if self.is_working():
            self.transport.abort()
            return
        self.transport.write(_BAD_REQUEST % (len(_BAD_REQUEST_BODY), _BAD_REQUEST_BODY))
        self.transport.close()

    def certificate(self) -> bytes | None:
        """Return the certificate of the other end (DER), which the handshake has checked; None: there is none."""
        tls = self.transport.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) if tls is not None else None

    def has_asked(self) -> bool:
        """Return whether it has brought the whole head of a request."""
        return self.cycle is not None

    def is_working(self) -> bool:
        """Return whether a request of it is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def is_worn(self) -> bool:
        """Return whether the connection is not used again: so clients spread over the processes of a server."""
        return self._limits.worn_s is not None and self.loop.time() - self.opened > self._limits.worn_s

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold the task that answers a request. It is cancelled where the connection is lost, and that is all."""
        self._task = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if not self._is_lost:
                self.transport.abort()
        finally:
            self._task = None

    def abort(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def end_if_overdue(self) -> None:
        """End a connection whose client keeps a request back, or half of one, or does not take its answers."""
        now, unread = self.loop.time(), self.transport.get_write_buffer_size()
        if unread != self._unread:
            self._unread, self._taken = unread, now
        if self._is_lost:
            return
        if unread or self.transport.is_closing():
            if now - self._taken > self._limits.unread_s:
                self.transport.abort()
        elif not self.is_working() and now - self._since > (
            self._limits.idle_s if self._is_idle else self._limits.head_s
        ):
            self.transport.close()

    @property
    def _is_idle(self) -> bool:
        """Whether a request has been answered, and the next one has not begun."""
        return self.cycle is not None and not self._is_in_head

    def _take(self, size: int) -> None:
        self._unparsed_bytes = 0
        self._head_bytes += size
        if self._head_bytes > self._limits.head_max_bytes:
            raise _HeadTooLargeError
