"""Tests for log lines of HTTP calls, which contain no secrets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from identity.keyring import Keyring
from web.logged_server import logging_to
from web.raw_http import answered, connected, request

PATIENCE_S = 30


@dataclass(frozen=True)
class Logged:
    """A server whose log is a file, and a key for its calls."""

    http: str
    log: Path
    key: str


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    directory = tmp_path_factory.mktemp("logged")
    keyring = Keyring(directory / "keys.json")
    key = keyring.key("query", "ingest", name="chat")
    with logging_to(directory / "log", api_keys=str(keyring.path), log_level="info") as http:
        yield Logged(http, directory / "log", key)


def wait_for(log: Path, *words: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not any(all(word in line for word in words) for line in log.read_text("utf-8").splitlines()):
        assert time.monotonic() < give_up, log.read_text("utf-8")
        time.sleep(0.02)


def test_call_ends_with_its_connection(logged: Logged) -> None:
    with closing(connected(logged.http)) as peer:
        head = (f"x-api-key: {logged.key}", "content-type: application/json", "x-request-id: given-up")
        peer.sendall(request("POST /v1/messages", *head, "content-length: 100", "expect: 100-continue"))
        assert peer.recv(100).startswith(b"HTTP/1.1 100 ")  # the call has started
    wait_for(logged.log, '"given-up"', '"CANCELLED"')
    assert "Traceback" not in logged.log.read_text("utf-8")


def test_log_contains_neither_keys_nor_queries(logged: Logged) -> None:
    log, key = logged.log, logged.key
    with httpx.Client(base_url=logged.http, headers={"x-api-key": key}, timeout=PATIENCE_S) as client:
        message = {"user_id": "u-hush", "role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z", "content": "hush content"}
        client.post("/v1/messages", json={"messages": [message]})
        client.post("/v1/messages", content=b'{"hush key": ', headers={"content-type": "application/json"})
        client.post("/v1/messages/lexical_search", json={"user_id": "u-hush", "query_text": "hush query"})
        client.get("/hush-path?hush-query")
        answered(logged.http, request("GET /\xff hush"), request("GET /hush", "x: \0"))
        client.get("/v1/users/u/messages?cursor=hush-cursor&hush-name=1", headers={"x-request-id": "last"})
    wait_for(log, '"last"')
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert {line["event"] for line in lines} >= {"serving", "rpc", "request rejected"}
    output = "\n".join(json.dumps(line) for line in lines if line["event"] != "audit")
    assert "hush" not in output
    assert key not in log.read_text("utf-8")
    assert "hush content" not in log.read_text("utf-8")
