"""`nomemory inspect`: the inspector for a remote server, with the credentials of the command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from click.testing import CliRunner
from identity.keyring import Keyring
from inspector.inspector_page import KOCHI, ROWS, recalled, write_sample
from web.chromium import MISSING, PROGRAM
from web.http_server import settings_of
from web.raw_http import answered, request

from nomemory.cli.main import nomemory
from nomemory.inspector.gateway import READ_METHODS
from nomemory.server.api.http.http_rules import find_method_descriptors
from running_server import started

if TYPE_CHECKING:
    from web.devtools import Browser

LIST = "/v1/users"
WRITING = (
    ("POST", "/v1/messages"),
    ("POST", "/v1/users/lin/messages:delete"),
    ("POST", "/v1/messages:import"),
    ("GET", "/v1/users/lin/messages:export"),
    ("DELETE", "/v1/users/lin"),
)


@dataclass(frozen=True)
class Opened:
    """A running inspector with its address, its token, and an authenticated client."""

    url: str
    token: str
    client: httpx.Client


@contextmanager
def inspecting(target: str, key: str = "") -> Iterator[Opened]:
    """Run the command until the context is left."""
    program = [str(Path(sys.executable).with_name("nomemory")), "inspect", "--target", target]
    environment = {**os.environ, "NOMEMORY_API_KEY": key} if key else {**os.environ}
    running = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert running.stdout
        assert running.stdout.readline().startswith(f"Inspector of {target}.")
        url, token = re.fullmatch(r"(http://[\d.:]+)/inspect/#token=(\S+)\n", running.stdout.readline()).groups()  # type: ignore[union-attr]
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=30) as client:
            yield Opened(url, token, client)
    finally:
        running.terminate()
        assert running.wait(30) == 0


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """An inspector of a server without HTTP that requires a key."""
    directory = tmp_path_factory.mktemp("gateway")
    keyring = Keyring(directory / "keys.json")
    key = keyring.key("query", "recall", "act-as", "admin", "ingest")
    with started(settings_of(directory, http_listen="", api_keys=keyring.path)) as server:
        write_sample(server, key)
        with inspecting(server.target, key) as opened:
            yield opened


def test_gateway_serves_read_calls(opened: Opened) -> None:
    listed = opened.client.get(LIST, params={"pageSize": 2})
    assert [item["userId"] for item in listed.json()["users"]] == ["lin", "mei"]
    assert listed.headers["cache-control"] == "no-store"
    assert opened.client.get("/inspect/").headers["content-security-policy"].startswith("default-src 'none'")
    assert opened.client.get("/").headers["location"] == "/inspect/"


def test_gateway_returns_errors_unchanged(opened: Opened) -> None:
    refused = opened.client.get("/v1/users/lin/messages", params={"pageSize": -1})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")
    assert refused.json()["error"]["details"][0]["reason"] == "ERROR_REASON_INVALID_FIELD"
    assert opened.client.get("/v1/users/lin/messages", params={"colour": "red"}).status_code == 400


def test_only_read_methods_are_called(opened: Opened) -> None:
    for verb, path in WRITING:
        assert opened.client.request(verb, path).status_code == 404
    for path in ("/metrics", "/openapi.json", "/healthz", "/inspect/../guard.py"):
        assert opened.client.get(path).status_code == 404
    assert opened.client.post(LIST, json={}).status_code == 405


def test_read_methods_exist_in_the_contract() -> None:
    services = {path.split("/")[1] for path in READ_METHODS}
    assert services == {f"nomemory.v1.{name}Service" for name in ("Query", "Recall", "Server", "Ingest")}
    assert {method.name for method in find_method_descriptors(READ_METHODS)} == {
        path.split("/")[2] for path in READ_METHODS
    }


def test_calls_without_the_token_are_rejected(opened: Opened) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {opened.token}"}):
        refused = httpx.get(opened.url + LIST, headers=headers)
        assert refused.status_code == 401, headers


def test_other_host_names_are_rejected(opened: Opened) -> None:
    port = opened.url.rpartition(":")[2]
    for host in (f"evil.example:{port}", "evil.example", "127.0.0.1", "localhost:1", f"127.0.0.1.evil.example:{port}"):
        raw = request("GET /inspect/").replace(b"host: localhost", f"host: {host}".encode())
        assert answered(opened.url, raw).startswith(b"HTTP/1.1 403 "), host
    assert opened.client.get("/inspect/", headers={"host": f"localhost:{port}"}).status_code == 200


def test_pages_of_other_origins_are_rejected(opened: Opened) -> None:
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": opened.url.replace("http:", "https:")},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert opened.client.get(LIST, headers=headers).status_code == 403, headers
    preflight_headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in opened.client.options(LIST, headers=preflight_headers).headers


def test_credentials_of_requests_are_not_forwarded(opened: Opened) -> None:
    assert opened.client.get(LIST, headers={"x-api-key": "nm_of_somebody"}).status_code == 200


def test_gateway_listens_on_loopback_only(opened: Opened) -> None:
    done = CliRunner().invoke(nomemory, ["inspect", "--listen", "0.0.0.0:0", "--target", "127.0.0.1:1"])
    assert done.exit_code == 2
    assert "must be a loopback address" in done.output
    assert opened.url.startswith("http://127.0.0.1:")


def test_unreachable_server_is_reported_at_startup() -> None:
    done = CliRunner().invoke(nomemory, ["inspect", "--target", "127.0.0.1:1"])
    assert done.exit_code == 1
    assert "No server is running at 127.0.0.1:1" in done.output


def test_lost_server_is_reported(tmp_path: Path) -> None:
    with started(settings_of(tmp_path, http_listen="")) as server:
        leaving = inspecting(server.target)
        opened = leaving.__enter__()
    try:
        answer = opened.client.get(LIST)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "UNAVAILABLE")
    finally:
        leaving.__exit__(None, None, None)


@pytest.mark.skipif(not PROGRAM, reason=MISSING)
@pytest.mark.timeout(180)
def test_recall_is_streamed_through_gateway(opened: Opened, browser: Browser) -> None:
    page = browser.page(f"{opened.url}/inspect/#token={opened.token}&user=sam&question={KOCHI}")
    page.until(f"{ROWS}.length")
    assert opened.token not in page.value("location.href")
    assert not page.value("document.querySelector('#key').checkVisibility()")
    recalled(page)
    assert "Kochi" in page.text(".view")
    page.reload()
    page.until(f"{ROWS}.length")
    assert page.complaints() == []
    steps = json.loads(page.value("JSON.stringify(performance.getEntriesByType('resource').map(entry => entry.name))"))
    assert all(name.startswith(opened.url) for name in steps)
