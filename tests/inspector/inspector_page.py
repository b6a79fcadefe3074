"""A server with the inspector and the sample messages, and helpers for its page."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

from web.devtools import Browser, Page

from nomemory.client import Client
from running_server import Server

ROOT = Path(__file__).parents[2]

SAMPLE = ROOT / "sample" / "messages.jsonl"

KOCHI = "Are we still flying to Kochi for Christmas?"

ROWS = "[...document.querySelectorAll('#line [role=option]:not([hidden]):not(.absent)')]"

_TRIES, _TRY_S = 3, 10.0

HAS_ASKED = "!document.querySelector('.keep').hidden"
"""JavaScript condition: the recall has ended."""


@dataclass(frozen=True)
class Inspected:
    """A server with the inspector."""

    server: Server

    @property
    def url(self) -> str:
        """URL of the page."""
        return f"{self.server.http}/inspect/"

    def page(self, browser: Browser, user: str = "", question: str = "", *, width: int = 1280) -> Page:
        """Open the page, with the messages of a user."""
        page = browser.page(self.address(user, question), width=width)
        if user:
            page.until(f"{ROWS}.length || document.body.dataset.pane !== 'messages' && innerWidth < 900")
        return page

    def address(self, user: str = "", question: str = "") -> str:
        """Return the URL of the page with a user and a question."""
        parameters = {name: value for name, value in (("user", user), ("question", question)) if value}
        return f"{self.url}#{urlencode(parameters)}" if parameters else self.url


def write_sample(server: Server, key: str | None = None) -> str:
    """Write the sample messages, wait until they are searchable, and return the write token."""
    messages = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    for message in messages:
        message["ts"] = datetime.fromisoformat(message["ts"])
    with Client(server.target, api_key=key) as client:
        written = client.write(messages)
        client.lexical_search("sam", "Kochi", at_least=written.write_token)
        return written.write_token


def recalled(page: Page) -> Page:
    """Run the recall of the question field and wait for its end."""
    for _ in range(_TRIES):
        page.click("#question")
        page.press("Enter")
        with suppress(TimeoutError):  # a key press before the user is selected asks nothing
            page.until("document.querySelector('.made .empty').hidden", _TRY_S)
            break
    page.until(HAS_ASKED)
    return page
