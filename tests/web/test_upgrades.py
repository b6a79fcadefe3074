"""Tests that protocol upgrade requests are answered as ordinary requests."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from web.raw_http import all_read, answered, connected, request

if TYPE_CHECKING:
    from web.http_server import Web

H2C = ("connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")


def batch(user: str) -> bytes:
    message = {"user_id": user, "role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z", "content": "x"}
    return json.dumps({"messages": [message]}).encode()


def count(web: Web, user: str) -> int:
    return int(web.client.get(f"/v1/users/{user}/messages:count").json().get("count", 0))


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages:import"])
@pytest.mark.parametrize("pause_s", [0.0, 0.2])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_upgrade_request_with_a_body_is_processed(
    web: Web, user: str, path: str, pause_s: float, *, is_chunked: bool
) -> None:
    body = batch(user)
    length = "transfer-encoding: chunked" if is_chunked else f"content-length: {len(body)}"
    media_type = "application/x-ndjson" if path.endswith("import") else "application/json"
    head = request(f"POST {path}", f"content-type: {media_type}", length, *H2C)
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    with closing(connected(web.server.http)) as peer:
        if pause_s:
            peer.sendall(head)
            time.sleep(pause_s)
            peer.sendall(sent)
        else:
            peer.sendall(head + sent)
        reply = all_read(peer)
    assert reply.startswith(b"HTTP/1.1 200 "), reply
    assert count(web, user) == 1


@pytest.mark.parametrize("pause_s", [0.0, 0.2])
def test_body_of_an_upgrade_request_is_not_a_second_request(web: Web, pause_s: float) -> None:
    inner = request("GET /v1/index_status", "x-request-id: smuggled")
    head = request("POST /v1/messages", "content-type: application/json", f"content-length: {len(inner)}", *H2C)
    with closing(connected(web.server.http)) as peer:
        peer.sendall(head.replace(b"connection: close\r\n", b""))
        time.sleep(pause_s)
        peer.sendall(inner + request("GET /healthz"))
        reply = all_read(peer)
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert reply.count(b"HTTP/1.1 ") == 1, "a malformed request closes its connection"


def test_requests_after_an_upgrade_are_answered_in_order(web: Web) -> None:
    ahead = [request("GET /v1/index_status", f"x-request-id: r{n}", *H2C) for n in range(5)]
    reply = answered(
        web.server.http, *[item.replace(b"connection: close\r\n", b"") for item in ahead], request("GET /healthz")
    )
    offsets = [reply.index(b"x-request-id: r%d\r\n" % n) for n in range(5)]
    assert offsets == sorted(offsets)
    assert reply.count(b"HTTP/1.1 200 ") == 6


@pytest.mark.parametrize("headers", [(), H2C])
def test_connect_request_is_rejected(web: Web, headers: tuple[str, ...]) -> None:
    reply = answered(web.server.http, request("CONNECT localhost:1", *headers))
    assert reply.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ", b"HTTP/1.1 404 "))
    assert reply.count(b"HTTP/1.1 ") == 1
