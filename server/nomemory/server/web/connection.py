"""One connection: uvicorn's protocol, with the limits that it does not have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from nomemory.server.settings import Settings

_UPGRADE = b"upgrade"
_BAD_REQUEST_BODY = (
    b'{"error":{"code":"INVALID_ARGUMENT","message":"the request is not valid HTTP, or its head is too large",'
    b'"details":[]}}'
)
_BAD_REQUEST = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
) % (len(_BAD_REQUEST_BODY), _BAD_REQUEST_BODY)


class _RefusedHeadError(Exception):
    """A request has too many bytes before its body, asks for a tunnel, or too many requests are sent ahead."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What connections may do.

    Attributes:
        settings: the limits of heads, and how long a connection may be idle.
        connections_max: how many there may be.
        body_s: how long the body of a request may take.
        answer_s: how long its answer may take, until the client has taken it.
    """

    settings: Settings
    connections_max: int
    body_s: float = inf
    answer_s: float = inf


class _Parser(httptools.HttpRequestParser):
    """Parses requests. One that asks to change the protocol is taken as if it did not ask, as HTTP allows."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._connection = connection
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # connections have bytes
        """Take bytes. Such a head and what is behind it are for a new parser: this one takes nothing more."""
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._connection.parser = again = _Parser(self._connection)
            again.feed_data(self._head_without_upgrade() + data[upgrade.args[0] :])

    def _head_without_upgrade(self) -> bytes:
        line = b"%b %b HTTP/%b" % (self.get_method(), self._connection.url, self.get_http_version().encode())
        headers = [b"%b: %b" % header for header in self._connection.headers if header[0] != _UPGRADE]
        return b"\r\n".join([line, *headers, b"", b""])


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
        task: answers a request; None: nothing does.
    """

    def __init__(
        self, config: Config, state: ServerState, limits: ConnectionLimits, admits: Callable[[], bool]
    ) -> None:
        super().__init__(config, state, {"connection": self})
        self.parser = _Parser(self)
        self.peer = ""
        self._limits = limits
        self._head_max_bytes = limits.settings.http.head_max_bytes
        self._admits = admits
        self.task: asyncio.Task[Any] | None = None
        self.opened = self._since = self._taken = self.loop.time()
        self._is_in_head = self._is_in_body = False
        self._unparsed_bytes = self._unread = 0

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
        super().connection_lost(exc)
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and hold what the parser keeps to the limit of a head."""
        if self.transport.is_closing():
            return
        # The parser tells of a head once it is whole, and of what stands behind a body likewise.
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > self._head_max_bytes:
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Begin with the head of a request."""
        self._is_in_head = True
        self._since = self.loop.time()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. What stands behind a body is not one: nobody in front of the server has looked at it."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer, or let the request wait for the answers before it."""
        if self.parser.should_upgrade():
            if not any(name == _UPGRADE for name, _ in self.headers):
                raise _RefusedHeadError
            return  # it comes again without the header
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self._head_max_bytes:
            raise _RefusedHeadError
        if len(self.pipeline) >= self._limits.settings.http.pipelined_max and self.is_working():
            raise _RefusedHeadError
        self._is_in_head, self._is_in_body = False, True
        self._unparsed_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body."""
        self._unparsed_bytes = 0
        self._is_in_body = False
        self._since = self.loop.time()
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
        elif not self.transport.is_closing():
            self.transport.write(_BAD_REQUEST)
            self.transport.close()

    def has_asked(self) -> bool:
        """Return whether it has brought the whole head of a request."""
        return self.cycle is not None

    def is_working(self) -> bool:
        """Return whether a request of it is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def end_if_overdue(self) -> None:
        """End a connection whose client keeps a request back, or half of one, or does not take its answers."""
        now, unread = self.loop.time(), self.transport.get_write_buffer_size()
        if unread != self._unread:
            self._unread, self._taken = unread, now
        is_stuck = unread > 0 and now - self._taken > self._limits.settings.connections.unread_s
        if is_stuck or now - self._since > self._patience_s():
            self.transport.abort()

    def _patience_s(self) -> float:
        settings = self._limits.settings
        if self.is_working():
            return self._limits.body_s if self._is_in_body else self._limits.answer_s
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            return settings.connections.unread_s
        is_idle = self.has_asked() and not self._is_in_head
        return settings.connections.connection_idle_s if is_idle else settings.http.head_s
