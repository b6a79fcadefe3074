"""HTTP/2 by hand, for what no client library would send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from proofs.isolation.contract import Metadata

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW = 4
_LARGEST_WINDOW = 2**31 - 1
_SEVEN_BITS = 127


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Make a frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def settings(**values: int) -> bytes:
    """Make the settings with which a connection begins; `window` is what the server may send on a stream."""
    pairs = struct.pack(">HI", INITIAL_WINDOW, values["window"]) if "window" in values else b""
    return frame(SETTINGS, 0, 0, pairs)


def headers(pairs: Sequence[tuple[str, str | bytes]]) -> bytes:
    """Pack headers, literally and without an index (HPACK)."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in pairs)


def request_headers(path: str | bytes, target: str, metadata: Metadata) -> bytes:
    """Pack the headers of a gRPC request. A path as bytes need not be text."""
    own = [(name, value) for name, value in metadata if isinstance(value, str)]
    return headers(
        [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", target), ("te", "trailers"),
         ("content-type", "application/grpc"), *own]
    )  # fmt: skip


def grpc_message(request: bytes) -> bytes:
    """Frame a request as gRPC does."""
    return b"\0" + struct.pack(">I", len(request)) + request


def connect(target: str) -> socket.socket:
    """Open a TCP connection.

    Raises:
        OSError: nobody listens, or there are too many connections.
    """
    host, _, port = target.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=5)


def _text(given: str | bytes) -> bytes:
    text = given.encode() if isinstance(given, str) else given
    if len(text) < _SEVEN_BITS:
        return bytes((len(text),)) + text
    rest, packed = len(text) - _SEVEN_BITS, bytearray((_SEVEN_BITS,))
    while rest >= 1 << 7:
        packed.append(rest & 0x7F | 0x80)
        rest >>= 7
    packed.append(rest)
    return bytes(packed) + text
