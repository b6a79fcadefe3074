"""Attacks on the port itself: bytes that are no HTTP/2, and HTTP/2 that is no request."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

from proofs.isolation import http2
from proofs.isolation.judge import Judge
from proofs.isolation.world import World

_FIRST_S, _LISTEN_S = 0.1, 0.2
_TIMES = 4
_MOST = 1 << 16
PATH_THAT_IS_NO_TEXT = "a path that is not UTF-8"
FORGED_LOG_LINE = '{"event": "forged-by-the-isolation-suite"}'


def attack_with_bytes(target: str, world: World, judge: Judge, wanted: Callable[[str], bool]) -> None:
    """Send each form of bytes that is wanted, by its name; the judge sees what comes back."""
    for name, sent in forms(target, world, random.Random(1)):  # noqa: S311 - repeatable, not secret
        for _ in range(_TIMES if wanted(name) else 0):
            judge.see_bytes(f"bytes on the port: {name}", answered(target, sent))


def attack_with_damage(target: str, world: World, judge: Judge, connections: int, seed: int) -> None:
    """Send forms of bytes with some of them changed, on so many connections."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    every = list(forms(target, world, chance))
    for _ in range(connections):
        name, sent = _damaged(every, chance)
        judge.see_bytes(f"bytes on the port: {name}", answered(target, sent))


def answered(target: str, sent: bytes) -> bytes:
    """Send bytes on a connection of their own; return what comes back before long."""
    told = b""
    with suppress(OSError), http2.connect(target) as connection:
        connection.sendall(sent)
        connection.settimeout(_FIRST_S)  # a connection that ends at once may not be looked at
        told += _heard(connection)
        connection.settimeout(_LISTEN_S)
        connection.shutdown(socket.SHUT_WR)
        told += _heard(connection)
    return told


def _heard(connection: socket.socket) -> bytes:
    """Return what comes until there is nothing for a while, or too much."""
    told = b""
    with suppress(TimeoutError):
        while len(told) < _MOST and (chunk := connection.recv(_MOST)):
            told += chunk
    return told


def forms(target: str, world: World, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Make all forms of bytes, each with its name."""
    begin = http2.PREFACE + http2.settings()
    listing = "/nomemory.v1.QueryService/ListMessages"
    ask = http2.request_headers(listing, target, ())
    victim = world.victims[0].user_id.encode()
    request = http2.grpc_message(b"\x0a" + bytes((len(victim),)) + victim)
    begun = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, ask)
    yield "nothing", b""
    yield "random bytes", chance.randbytes(5000)
    yield "HTTP/1.1", f"GET / HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()
    yield "HTTP/1.1, a long header", b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000
    yield "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500)
    yield "half a preface", http2.PREFACE[:12]
    yield "a preface and random frames", begin + chance.randbytes(3000)
    yield "a request without credentials", begin + begun + http2.frame(http2.DATA, http2.END_STREAM, 1, request)
    yield "a request of 4 GB", begin + begun + http2.frame(http2.DATA, 0, 1, b"\0\xff\xff\xff\xff" + b"a" * 100)
    yield "a compressed request", begin + begun + http2.frame(http2.DATA, http2.END_STREAM, 1, b"\1" + request[1:])
    yield "data before headers", begin + http2.frame(http2.DATA, 0, 1, b"x" * 100)
    yield "an even stream", begin + http2.frame(http2.HEADERS, http2.END_HEADERS, 2, ask)
    yield "headers without an end", begin + http2.frame(http2.HEADERS, 0, 1, ask) + http2.frame(9, 0, 1, ask) * 200
    yield "64 KB of headers", begin + http2.frame(1, 4, 1, http2.headers([("x-a", "a" * 15_000)]))
    yield "damaged headers", begin + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, chance.randbytes(300))
    odd = http2.request_headers(b"/nomemory.v1.QueryService/List\xa2Messages", target, ())
    yield PATH_THAT_IS_NO_TEXT, begin + http2.frame(http2.HEADERS, 5, 1, odd)
    yield "a method that is none", begin + http2.frame(1, 5, 1, http2.request_headers("/x/y", target, ()))
    yield "a thousand pings", begin + http2.frame(http2.PING, 0, 0, b"12345678") * 1000
    yield "a thousand settings", begin + http2.settings(window=1) * 1000
    yield "streams begun and reset", begin + b"".join(_reset(n, ask) for n in range(1, 1001, 2))
    yield "a window that overflows", begin + http2.frame(http2.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2
    debug = b"\0" * 8 + f"\n{FORGED_LOG_LINE}\n".encode()
    yield "a GOAWAY with a log line in it", begin + http2.frame(http2.GOAWAY, 0, 0, debug)


def _reset(stream: int, ask: bytes) -> bytes:
    return http2.frame(http2.HEADERS, http2.END_HEADERS, stream, ask) + http2.frame(
        http2.RST_STREAM, 0, stream, b"\0\0\0\x08"
    )


def _damaged(every: list[tuple[str, bytes]], chance: random.Random) -> tuple[str, bytes]:
    name, sent = chance.choice(every)
    damaged = bytearray(sent)
    for _ in range(chance.randint(1, 20)):
        if damaged:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return f"{name}, damaged", bytes(damaged)
