"""Web pages of others may not call the server, and the page of its own may do no more than call it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from web.raw_http import answered, request
from web.served import settings_of
from web.test_bad_requests import reason

from served import started

if TYPE_CHECKING:
    from web.served import GuardedWeb, Web

EVIL = {"origin": "https://evil.example"}
CHAT = {"origin": "https://chat.example"}
FORBIDDEN = 403


def test_a_page_of_another_origin_is_refused(web: Web, guarded_web: GuardedWeb) -> None:
    for client in (web.client, guarded_web.client):
        for headers in (EVIL, {"origin": "null"}, {"origin": "http://127.0.0.1:1"}, {"origin": "http://["}):
            answer = client.get("/v1/server_info", headers=headers)
            assert (answer.status_code, reason(answer)) == (FORBIDDEN, "ORIGIN_NOT_ALLOWED")
            assert "access-control-allow-origin" not in answer.headers


def test_so_is_the_question_of_its_browser(web: Web) -> None:
    asked = EVIL | {"access-control-request-method": "POST"}
    answer = web.client.options("/v1/messages", headers=asked)
    assert answer.status_code == FORBIDDEN
    assert "access-control-allow-methods" not in answer.headers


def test_a_page_of_the_settings_may_call(guarded_web: GuardedWeb) -> None:
    asked = CHAT | {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    preflight = guarded_web.client.options("/v1/messages", headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == CHAT["origin"]
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert "DELETE" in preflight.headers["access-control-allow-methods"]
    answer = guarded_web.client.get("/v1/server_info", headers=CHAT)
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == CHAT["origin"]
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


def test_the_servers_own_page_may_call(web: Web) -> None:
    assert web.client.get("/v1/server_info", headers={"origin": web.server.http}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7701", "localhost.evil.example", "", "localhost:x:1"])
def test_a_server_without_credentials_goes_by_its_own_names(web: Web, host: str) -> None:
    raw = request("GET /v1/server_info").replace(b"host: localhost", f"host: {host}".encode())
    assert answered(web.server.http, raw).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7701", "127.0.0.1", "127.0.0.1:1", "[::1]:7701"])
def test_and_by_no_others(web: Web, host: str) -> None:
    raw = request("GET /v1/server_info").replace(b"host: localhost", f"host: {host}".encode())
    assert answered(web.server.http, raw).startswith(b"HTTP/1.1 200 ")


def test_the_page_needs_nothing_from_elsewhere(web: Web) -> None:
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


def test_a_server_that_describes_itself_to_nobody_has_no_page(tmp_path: Path) -> None:
    with started(settings_of(tmp_path, reflection=False)) as server:
        assert httpx.get(f"{server.http}/").status_code == 404
        assert httpx.get(f"{server.http}/openapi.json").status_code == 404
        assert httpx.get(f"{server.http}/healthz").status_code == 200


def test_the_inspector_is_served_only_where_that_is_said(web: Web) -> None:
    assert web.client.get("/inspect/").status_code == 404
    assert web.client.get("/inspect/main.js").status_code == 404
