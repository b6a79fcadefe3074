"""gRPC as a way into a server."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator, Mapping
from functools import partial

from nomemory.v1 import query_service_pb2 as q
from proofs.isolation import http2
from proofs.isolation.contract import METHODS, Metadata
from proofs.isolation.grpc_transport import open_grpc
from proofs.isolation.raw_bytes import FORGED_LOG_LINE, PATH_THAT_IS_NO_TEXT
from proofs.isolation.way import Form, Hold, Way
from proofs.isolation.world import Attacker, World

_STREAMS = 10


def grpc_forms(target: str, world: World, chance: random.Random) -> Iterator[Form]:
    """Make bytes that are no HTTP/2, and HTTP/2 that is no request."""
    begin = http2.PREFACE + http2.settings()
    listing = "/nomemory.v1.QueryService/ListMessages"
    ask = http2.request_headers(listing, target, ())
    victim = world.victims[0].user_id.encode()
    request = http2.grpc_message(b"\x0a" + bytes((len(victim),)) + victim)
    begun = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, ask)
    yield Form("nothing", b"")
    yield Form("random bytes", chance.randbytes(5000))
    yield Form("HTTP/1.1", f"GET / HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    yield Form("HTTP/1.1, a long header", b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000)
    yield Form("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500))
    yield Form("half a preface", http2.PREFACE[:12])
    yield Form("a preface and random frames", begin + chance.randbytes(3000))
    yield Form("a request without credentials", begin + begun + http2.frame(http2.DATA, http2.END_STREAM, 1, request))
    yield Form("a request of 4 GB", begin + begun + http2.frame(http2.DATA, 0, 1, b"\0\xff\xff\xff\xff" + b"a" * 100))
    yield Form(
        "a compressed request", begin + begun + http2.frame(http2.DATA, http2.END_STREAM, 1, b"\1" + request[1:])
    )
    yield Form("data before headers", begin + http2.frame(http2.DATA, 0, 1, b"x" * 100))
    yield Form("an even stream", begin + http2.frame(http2.HEADERS, http2.END_HEADERS, 2, ask))
    yield Form(
        "headers without an end", begin + http2.frame(http2.HEADERS, 0, 1, ask) + http2.frame(9, 0, 1, ask) * 200
    )
    yield Form("64 KB of headers", begin + http2.frame(1, 4, 1, http2.headers([("x-a", "a" * 15_000)])))
    yield Form("damaged headers", begin + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, chance.randbytes(300)))
    odd = http2.request_headers(b"/nomemory.v1.QueryService/List\xa2Messages", target, ())
    yield Form(PATH_THAT_IS_NO_TEXT, begin + http2.frame(http2.HEADERS, 5, 1, odd))
    yield Form("a method that is none", begin + http2.frame(1, 5, 1, http2.request_headers("/x/y", target, ())))
    yield Form("a thousand pings", begin + http2.frame(http2.PING, 0, 0, b"12345678") * 1000)
    yield Form("a thousand settings", begin + http2.settings(window=1) * 1000)
    yield Form("streams begun and reset", begin + b"".join(_reset(n, ask) for n in range(1, 1001, 2)))
    yield Form("a window that overflows", begin + http2.frame(http2.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2)
    debug = b"\0" * 8 + f"\n{FORGED_LOG_LINE}\n".encode()
    yield Form("a GOAWAY with a log line in it", begin + http2.frame(http2.GOAWAY, 0, 0, debug))


def _reset(stream: int, ask: bytes) -> bytes:
    return http2.frame(http2.HEADERS, http2.END_HEADERS, stream, ask) + http2.frame(
        http2.RST_STREAM, 0, stream, b"\0\0\0\x08"
    )


def grpc_holds(target: str, metadata: Metadata, reader: Attacker) -> Mapping[str, Hold]:
    """Begin requests and end none; ask for pages and read none of them."""
    return {
        "requests that never end": partial(_begin_requests, target),
        "replies that nobody reads": partial(_ask_for_pages, target, metadata, reader.user_id),
    }


def _begin_requests(target: str, connection: socket.socket) -> None:
    ask = http2.request_headers(METHODS["WriteMessages"].path, target, ())
    connection.sendall(http2.PREFACE + http2.settings())
    for stream in range(1, 2 * _STREAMS, 2):
        connection.sendall(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, ask))
    size = b"\0" + (1 << 20).to_bytes(4, "big")
    connection.sendall(http2.frame(http2.DATA, 0, 1, size + b"a" * 10_000))


def _ask_for_pages(target: str, metadata: Metadata, user_id: str, connection: socket.socket) -> None:
    asked = q.ListMessagesRequest(user_id=user_id).SerializeToString()
    ask = http2.request_headers(METHODS["ListMessages"].path, target, metadata)
    connection.sendall(http2.PREFACE + http2.settings(window=2**31 - 1))
    connection.sendall(http2.frame(http2.WINDOW_UPDATE, 0, 0, (2**31 - 1 - 65_535).to_bytes(4, "big")))
    for stream in range(1, 2 * _STREAMS, 2):
        connection.sendall(
            http2.frame(http2.HEADERS, http2.END_HEADERS, stream, ask)
            + http2.frame(http2.DATA, http2.END_STREAM, stream, http2.grpc_message(asked))
        )


GRPC = Way("grpc", open_grpc, {}, grpc_forms, grpc_holds)
