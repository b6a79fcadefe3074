"""Tests that pages in a real browser can call the server only from an allowed origin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from identity.keyring import Keyring
from web.chromium import MISSING, PROGRAM, Pages, browsing, serving_page
from web.http_server import settings_of

from running_server import Server, started

if TYPE_CHECKING:
    from web.http_server import Web

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(180)]
SCENARIO = Path(__file__).parent / "browser" / "scenario.html"
PATIENCE_S = 60


@dataclass(frozen=True)
class Visited:
    """A server with one allowed origin, and the results of a page from that origin and from another one."""

    server: Server
    key: str
    allowed: Mapping[str, Any]
    refused: Mapping[str, Any]


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:
    directory = tmp_path_factory.mktemp("browser")
    keyring = Keyring(directory / "keys.json")
    key = keyring.key("ingest", "query", "recall", "act-as", "admin", name="page")
    with serving_page(SCENARIO) as pages:
        settings = settings_of(directory, api_keys=keyring.path, http_cors_origins=pages.origin("127.0.0.1"))
        with started(settings) as server:
            yield Visited(server, key, seen(pages, server, key, "127.0.0.1"), seen(pages, server, key, "localhost"))


def seen(pages: Pages, server: Server, key: str, host: str) -> Mapping[str, Any]:
    pages.configuration.update(api=server.http, key=key)
    return pages.visit(host, PATIENCE_S)


def test_browser_page_writes_and_reads(visited: Visited) -> None:
    allowed = visited.allowed
    assert allowed["write"]["json"]["results"][0]["messageId"] == "m1"
    assert [item["messageId"] for item in allowed["list"]["json"]["items"]] == ["m1"]
    assert "不吃辣" in allowed["search"]["json"]["items"][0]["content"]
    assert allowed["count"]["json"] == {"count": "1"}
    assert allowed["erase"]["status"] == 200


def test_browser_page_reads_the_request_id(visited: Visited) -> None:
    assert visited.allowed["list"]["id"] == "from-a-page"
    assert visited.allowed["write"]["id"]


def test_browser_page_recalls_unary_and_streaming(visited: Visited) -> None:
    allowed = visited.allowed
    assert "never eat anything spicy" in json.dumps(allowed["recall"]["json"])
    assert allowed["events"]["type"].startswith("text/event-stream")
    assert allowed["events"]["text"].endswith("event: end\ndata: {}\n\n")
    assert "never eat anything spicy" in allowed["events"]["text"]
    assert allowed["lines"]["type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in allowed["lines"]["text"].splitlines()]
    assert len(lines) == allowed["events"]["text"].count("data: ") - 1
    assert "error" not in lines[-1]


def test_browser_page_reads_errors(visited: Visited) -> None:
    wrong, nobody = visited.allowed["wrong"], visited.allowed["nobody"]
    assert (wrong["status"], wrong["json"]["error"]["code"]) == (400, "INVALID_ARGUMENT")
    assert {item["field"] for item in wrong["json"]["error"]["details"][1]["fieldViolations"]} == {"colour"}
    assert (nobody["status"], nobody["json"]["error"]["code"]) == (401, "UNAUTHENTICATED")


def test_browser_page_of_another_origin_reads_nothing(visited: Visited) -> None:
    refused = dict(visited.refused)
    blind = refused.pop("blind")
    assert all("TypeError: Failed to fetch" in item.get("refused", "") for item in refused.values()), refused
    assert blind == {"type": "opaque", "status": 0}


def test_requests_without_preflight_write_nothing(visited: Visited) -> None:
    assert visited.allowed["blind"] == {"type": "opaque", "status": 0}
    headers = {"authorization": f"Bearer {visited.key}"}
    listed = httpx.get(f"{visited.server.http}/v1/users/ann/messages", headers=headers).json()
    assert [item["messageId"] for item in listed["items"]] == ["m1"]


def test_explorer_page_lists_methods_without_external_requests(web: Web, tmp_path: Path) -> None:
    log = tmp_path / "net.json"
    arguments = ("--virtual-time-budget=20000", "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom")
    with browsing(*arguments, f"{web.server.http}/") as browser:
        page, output = browser.communicate(timeout=PATIENCE_S)
    assert page.count("<details>") == web.client.get("/openapi.json").text.count('"operationId"')
    assert "GET /v1/users/{user_id}/messages" in page
    assert "CONSOLE" not in output
    requested_urls = list_requested_urls(log)
    assert f"{web.server.http}/openapi.json" in requested_urls
    assert all(url.startswith(f"{web.server.http}/") for url in requested_urls), requested_urls


def list_requested_urls(log: Path) -> set[str]:
    """Return the URLs that pages requested, without those of the browser itself."""
    events = [event.get("params", {}) for event in json.loads(log.read_text("utf-8"))["events"]]
    return {event["url"] for event in events if "url" in event and "://" in event.get("initiator", "")}
