"""Tests for requests of web pages from other origins and from the same origin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from web.http_server import settings_of
from web.raw_http import answered, request
from web.test_bad_requests import reason

from running_server import started

if TYPE_CHECKING:
    from web.http_server import GuardedWeb, Web

EVIL = {"origin": "https://evil.example"}
CHAT = {"origin": "https://chat.example"}
FORBIDDEN = 403


def test_page_of_another_origin_is_rejected(web: Web, guarded_web: GuardedWeb) -> None:
    for client in (web.client, guarded_web.client):
        for headers in (EVIL, {"origin": "null"}, {"origin": "http://127.0.0.1:1"}, {"origin": "http://["}):
            answer = client.get("/v1/server_info", headers=headers)
            assert (answer.status_code, reason(answer)) == (FORBIDDEN, "ORIGIN_NOT_ALLOWED")
            assert "access-control-allow-origin" not in answer.headers


def test_preflight_of_another_origin_is_rejected(web: Web) -> None:
    headers = EVIL | {"access-control-request-method": "POST"}
    answer = web.client.options("/v1/messages", headers=headers)
    assert answer.status_code == FORBIDDEN
    assert "access-control-allow-methods" not in answer.headers


def test_page_of_an_allowed_origin_can_call(guarded_web: GuardedWeb) -> None:
    headers = CHAT | {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    preflight = guarded_web.client.options("/v1/messages", headers=headers)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == CHAT["origin"]
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert "DELETE" in preflight.headers["access-control-allow-methods"]
    answer = guarded_web.client.get("/v1/server_info", headers=CHAT)
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == CHAT["origin"]
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


def test_same_origin_page_can_call(web: Web) -> None:
    assert web.client.get("/v1/server_info", headers={"origin": web.server.http}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7701", "localhost.evil.example", "", "localhost:x:1"])
def test_server_without_credentials_rejects_other_host_names(web: Web, host: str) -> None:
    raw = request("GET /v1/server_info").replace(b"host: localhost", f"host: {host}".encode())
    assert answered(web.server.http, raw).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7701", "127.0.0.1", "127.0.0.1:1", "[::1]:7701"])
def test_server_without_credentials_accepts_local_host_names(web: Web, host: str) -> None:
    raw = request("GET /v1/server_info").replace(b"host: localhost", f"host: {host}".encode())
    assert answered(web.server.http, raw).startswith(b"HTTP/1.1 200 ")


def test_page_loads_no_external_resources(web: Web) -> None:
    page = web.client.get("/")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    for path in re.findall(r'(?:src|href)="([^"]*)"', page.text):
        assert web.client.get(f"/{path}").status_code == 200
    assert not re.search(r"\son\w+=|style=|<script>", page.text)
    script = web.client.get("/page.js").text
    assert "innerHTML" not in script
    assert not re.search(r"https?://", page.text + script)


def test_page_is_not_served_without_reflection(tmp_path: Path) -> None:
    with started(settings_of(tmp_path, reflection=False)) as server:
        assert httpx.get(f"{server.http}/").status_code == 404
        assert httpx.get(f"{server.http}/openapi.json").status_code == 404
        assert httpx.get(f"{server.http}/healthz").status_code == 200


def test_inspector_is_served_only_if_enabled(web: Web) -> None:
    assert web.client.get("/inspect/").status_code == 404
    assert web.client.get("/inspect/main.js").status_code == 404
