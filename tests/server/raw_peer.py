"""A manual HTTP/2 client that can leave requests unfinished and responses unread."""

from __future__ import annotations

import select
import socket
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes

LIST = "/nomemory.v1.QueryService/ListMessages"
_CHUNK = 16_384
_ALL = 1_000_000


@dataclass
class Stream:
    """The unsent part of a request, and the received part of its response."""

    unsent: bytes | memoryview
    ends: bool
    has_headers: bool = False
    received: int = 0
    status: str | None = None
    details: bytes = b""
    is_over: bool = False


@dataclass
class RawPeer:
    """A connection.

    Attributes: window: the number of response bytes that the server may send; it is never increased. is_closed: whether
    the server has closed the connection.
    """

    target: str
    window: int = 65_535
    reads: bool = True
    streams: dict[int, Stream] = field(default_factory=dict)
    is_closed: bool = False

    def __post_init__(self) -> None:
        host, _, port = self.target.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self.socket.settimeout(0)
        self._out = bytearray()
        self._http2 = H2Connection(
            H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False)
        )
        self._http2.initiate_connection()
        self._http2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: self.window})

    def call(self, path: str | bytes, message: bytes, *, declared: int | None = None) -> Stream:
        """Begin a call. With `declared`, the message announces that many bytes and never ends."""
        number = self._http2.get_next_available_stream_id()
        headers = [
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", self.target),
            ("te", "trailers"), ("content-type", "application/grpc"),
        ]  # fmt: skip
        self._http2.send_headers(number, headers)
        size = len(message) if declared is None else declared
        stream = Stream(memoryview(b"\0" + size.to_bytes(4) + message), ends=declared is None)
        self.streams[number] = stream
        return stream

    def take(self, stream: Stream) -> None:
        """Open the flow-control window for a complete response."""
        number = next(number for number, item in self.streams.items() if item is stream)
        self._http2.increment_flow_control_window(_ALL, number)

    def ping(self) -> None:
        """Send a ping."""
        self._http2.ping(b"are you?")

    def allowed_streams(self) -> int:
        """Return the server's limit of concurrent streams."""
        return self._http2.remote_settings.max_concurrent_streams

    def turn(self) -> None:
        """Send pending data, and receive available data."""
        for number, stream in self.streams.items():
            self._send(number, stream)
        self._out += self._http2.data_to_send()
        try:
            while self._out:
                del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.is_closed = True
        if self.reads:
            self._take()

    def _send(self, number: int, stream: Stream) -> None:
        while not stream.is_over and len(self._out) < 1_000_000:
            room = min(self._http2.local_flow_control_window(number), _CHUNK, len(stream.unsent))
            if room <= 0:
                return
            is_last = stream.ends and room == len(stream.unsent)
            self._http2.send_data(number, bytes(stream.unsent[:room]), end_stream=is_last)
            stream.unsent = stream.unsent[room:]
            self._out += self._http2.data_to_send()

    def _take(self) -> None:
        try:
            data = self.socket.recv(1_000_000)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.is_closed = True
            return
        for event in self._http2.receive_data(data):
            self._note(event)

    def _note(self, event: object) -> None:
        if isinstance(event, ConnectionTerminated):
            self.is_closed = True
        if not isinstance(event, (DataReceived, ResponseReceived, TrailersReceived, StreamEnded, StreamReset)):
            return
        stream = self.streams[event.stream_id]
        if isinstance(event, DataReceived):
            stream.received += len(event.data)
        if isinstance(event, (ResponseReceived, TrailersReceived)):
            stream.has_headers = True
            headers = {str(name): str(value) for name, value in event.headers}
            stream.status = headers.get("grpc-status", stream.status)
            stream.details = b64decode(headers.get("grpc-status-details-bin", "") + "==")
        stream.is_over = stream.is_over or isinstance(event, (StreamEnded, StreamReset))


@contextmanager
def peers(target: str, count: int, *, window: int = 65_535) -> Iterator[Sequence[RawPeer]]:
    """Open a number of connections."""
    with ExitStack() as stack:
        opened = [RawPeer(target, window) for _ in range(count)]
        for peer in opened:
            stack.callback(peer.socket.close)
        yield opened


def run(opened: Sequence[RawPeer], until: Callable[[], bool], longest_s: float) -> bool:
    """Let the peers send and receive until a condition holds; return False at the timeout."""
    give_up = time.monotonic() + longest_s
    while not until():
        if time.monotonic() > give_up:
            return False
        alive = [peer.socket for peer in opened if not peer.is_closed]
        select.select(alive, [], [], 0.01)
        for peer in opened:
            if not peer.is_closed:
                peer.turn()
    return True
