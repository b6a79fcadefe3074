"""Long requests take only so much of a process, whichever way they come; short ones are answered meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import httpx
import pytest
from server.fleet import until
from web.raw_http import all_read, connected, request
from web.served import settings_of

from nomemory.v1 import ingest_service_pb2 as i
from served import Server, started
from talk import refusal, said

HELD = 1 << 20
LONG = 200_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that has room for one long request."""
    with started(settings_of(tmp_path, requests_max_bytes=HELD)) as server:
        yield server


def long_body(user: str, message_id: str) -> bytes:
    message = {"userId": user, "messageId": message_id, "role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z"}
    return json.dumps({"messages": [message | {"content": "x" * LONG}]}).encode()


def status_of(server: Server, body: bytes) -> int:
    json_type = {"content-type": "application/json"}
    return httpx.post(f"{server.http}/v1/messages", content=body, headers=json_type, timeout=30).status_code


def test_long_requests_are_refused_while_there_is_no_room(server: Server, user: str) -> None:
    body = long_body(user, "first")
    head = request("POST /v1/messages", "content-type: application/json", f"content-length: {len(body)}")
    with closing(connected(server.http)) as peer:
        peer.sendall(head + body[: LONG // 2])
        assert until(lambda: status_of(server, long_body(user, "second")) == 429)
        with pytest.raises(grpc.RpcError) as error:
            server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[said(user, "third", "x" * LONG, ts=1)]))
        assert (refusal(error.value).reason, bool(refusal(error.value).retry_s)) == ("OVERLOADED", True)
        assert status_of(server, long_body(user, "short")[:100]) == 400, "a short one is looked at"
        peer.sendall(body[LONG // 2 :])
        assert all_read(peer).startswith(b"HTTP/1.1 200 ")
    for n in range(10):
        assert status_of(server, long_body(user, f"m{n}")) == 200, "what was answered is not held"
