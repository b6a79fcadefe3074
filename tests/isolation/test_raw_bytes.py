"""Tests that arbitrary bytes on either port do not affect the server."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nomemory.server.runtime.settings import Settings
from running_server import Server, started

QUIET_S = 0.5
HEALTHZ = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
RANDOM = random.Random(1).randbytes(5_000)  # noqa: S311 - repeatable, not secret
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + RANDOM[:500]
GARBAGE = {
    "nothing": b"",
    "random bytes": RANDOM,
    "TLS": TLS_HELLO,
    "half a preface of HTTP/2": PREFACE[:12],
    "HTTP/2 and random frames": PREFACE + RANDOM,
    "HTTP/2 and a thousand pings": PREFACE + b"\0\0\x08\x06\0\0\0\0\0ping-it!" * 1_000,
    "HTTP/1.1 with a head of 100 KB": b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000,
    "HTTP/0.9": b"GET /healthz\r\n",
    "empty lines": b"\r\n" * 5_000,
    "a path that is not UTF-8": b"GET /v1/users/\xa2/messages HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "10,000 headers": b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
}

SMUGGLED_ID = b"smuggled-request"
INNER = b"GET /v1/index_status HTTP/1.1\r\nhost: localhost\r\nx-request-id: " + SMUGGLED_ID + b"\r\n\r\n"
LENGTH = b"content-length: %d" % len(INNER)
CHUNKED = b"transfer-encoding: chunked"
CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER)


def post(*headers: bytes) -> bytes:
    lines = (b"POST /v1/messages HTTP/1.1", b"host: localhost", b"content-type: application/json", *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n"


SMUGGLING = {
    "a length and chunks": post(LENGTH, CHUNKED) + b"0\r\n\r\n" + INNER,
    "two lengths": post(b"content-length: 0", LENGTH) + INNER,
    "two lengths, the other way": post(LENGTH, b"content-length: 0") + INNER,
    "a length with a sign": post(b"content-length: +%d" % len(INNER)) + INNER,
    "an unknown coding": post(b"transfer-encoding: xchunked", LENGTH) + INNER,
    "two codings": post(CHUNKED, b"transfer-encoding: identity") + CHUNK,
    "a chunk size in hex notation": post(CHUNKED) + b"0x0\r\n\r\n" + INNER,
    "a chunk that is longer than its size": post(CHUNKED) + b"1\r\n{}\r\n0\r\n\r\n" + INNER,
    "a trailer": post(CHUNKED) + b"0\r\nx-request-id: " + SMUGGLED_ID + b"\r\n\r\n",
    "the body of a GET": b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + LENGTH + b"\r\n\r\n" + INNER,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a gRPC port and an HTTP port."""
    settings = Settings.from_environment(
        data=tmp_path_factory.mktemp("raw"),
        listen="127.0.0.1:0",
        http_listen="127.0.0.1:0",
        embedder="none",
        drain_timeout_s=0.0,
    )
    with started(settings) as running:
        yield running


def answer(target: str, sent: bytes) -> bytes:
    """Send bytes; return the response until the connection is idle."""
    host, _, port = target.removeprefix("http://").rpartition(":")
    received = b""
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(sent)
        connection.settimeout(QUIET_S)
        while chunk := connection.recv(1 << 16):
            received += chunk
    return received


def check_health(server: Server) -> None:
    """Fail if either port does not respond."""
    with grpc.insecure_channel(server.target, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10, wait_for_ready=True)
    assert answer(server.http, HEALTHZ).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("name", GARBAGE)
def test_random_bytes_do_not_affect_the_server(server: Server, name: str) -> None:
    for target in (server.target, server.http):
        assert b"Traceback" not in answer(target, GARBAGE[name])
    check_health(server)


@pytest.mark.parametrize("name", SMUGGLING)
def test_random_bodies_are_rejected(server: Server, name: str) -> None:
    assert b"x-request-id: " + SMUGGLED_ID not in answer(server.http, SMUGGLING[name])
