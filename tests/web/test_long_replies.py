"""Long replies take turns: what is short is answered between them."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import httpx
import pytest
from web.raw_http import all_read, connected, request

from nomemory.server.web.errors import Headers
from nomemory.server.web.exchange import Exchange

if TYPE_CHECKING:
    from web.served import Web

PAGES = 40


def test_a_short_answer_does_not_wait_for_many_long_ones(web: Web, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"userId": user, "role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z", "content": "x " * 10_000}
    assert web.client.post("/v1/messages", json={"messages": [said] * 10}).status_code == 200
    order: list[bytes] = []
    is_held, all_sent = threading.Event(), threading.Event()
    respond = Exchange.respond

    async def noted(exchange: Exchange, status: int, headers: Headers, body: bytes) -> None:
        if exchange.query == b"hold":  # nothing is answered until everybody has asked
            is_held.set()
            all_sent.wait(20)
        order.append(exchange.raw_path)
        await respond(exchange, status, headers, body)

    monkeypatch.setattr(Exchange, "respond", noted)
    with ExitStack() as stack:
        first, *peers, last = (stack.enter_context(closing(connected(web.server.http))) for _ in range(PAGES + 2))
        assert httpx.get(f"{web.server.http}/healthz").status_code == 200  # it came last: those before are accepted
        order.clear()
        first.sendall(request("GET /healthz?hold"))
        assert is_held.wait(20)
        for peer in peers:
            peer.sendall(request(f"GET /v1/users/{user}/messages"))
        last.sendall(request("GET /healthz"))
        all_sent.set()
        assert all(all_read(peer).startswith(b"HTTP/1.1 200 ") for peer in (last, *peers))
    assert len(order) == PAGES + 2
    assert order.index(b"/healthz", 1) < PAGES / 2
