"""A server with the inspector and the sample, and a browser that looks at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest
from web.chromium import MISSING, PROGRAM
from web.conftest import settings_of
from web.devtools import Browser, Page, driven

from conftest import Server, started
from nomemory.client import Client

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample" / "messages.jsonl"
KOCHI = "Are we still flying to Kochi for Christmas?"
ROWS = "[...document.querySelectorAll('#line [role=option]:not([hidden]):not(.absent)')]"
_TRIES, _TRY_S = 3, 10.0
ASKED = "!document.querySelector('.keep').hidden"
"""A recall is over."""


@dataclass(frozen=True)
class Inspected:
    """A server with the inspector."""

    server: Server

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"{self.server.http}/inspect/"

    def page(self, browser: Browser, user: str = "", question: str = "", *, width: int = 1280) -> Page:
        """Open the page, with the talk of a user."""
        page = browser.page(self.address(user, question), width=width)
        if user:
            page.until(f"{ROWS}.length || document.body.dataset.pane !== 'talk' && innerWidth < 900")
        return page

    def address(self, user: str = "", question: str = "") -> str:
        """Return where the page begins with a user and a question."""
        asked = {name: value for name, value in (("user", user), ("question", question)) if value}
        return f"{self.url}#{urlencode(asked)}" if asked else self.url


@pytest.fixture(scope="session")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    """A server without credentials, which has the sample and searches by words."""
    with started(settings_of(tmp_path_factory.mktemp("inspector"), inspect=True)) as server:
        write_sample(server)
        yield Inspected(server)


def write_sample(server: Server, key: str | None = None) -> str:
    """Write the sample, and wait until its words are found; return the write token."""
    messages = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    for message in messages:
        message["ts"] = datetime.fromisoformat(message["ts"])
    with Client(server.target, api_key=key) as client:
        written = client.write(messages)
        client.lexical_search("sam", "Kochi", at_least=written.write_token)
        return written.write_token


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser; where there is none, the test is skipped and says so."""
    if not PROGRAM:
        pytest.skip(MISSING)
    with driven() as running:
        yield running


def recalled(page: Page) -> Page:
    """Ask the question that stands there, and wait for the end."""
    for _ in range(_TRIES):
        page.click("#question")
        page.press("Enter")
        with suppress(TimeoutError):  # a key that comes before the page knows its user asks nothing
            page.until("document.querySelector('.made .empty').hidden", _TRY_S)
            break
    page.until(ASKED)
    return page
