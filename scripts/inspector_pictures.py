"""Take the screenshots for README, landing page and docs/inspector.md: scripts/gen_inspector_pictures."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inspector.inspector_page import Inspected, recalled, write_sample
from usage import show_help
from web.devtools import Browser, Page, driven

from nomemory.client import Client
from nomemory.server.runtime.settings import Settings
from running_server import started

TRIP = "What happened to the Kochi trip?"
STILL = "Promise.all(document.getAnimations().map(animation => animation.finished))"


@contextmanager
def running_sample_server() -> Iterator[Inspected]:
    """Run a server that has the sample messages and the default embedder."""
    with tempfile.TemporaryDirectory() as data:
        settings = Settings.from_environment(data=data, listen="127.0.0.1:0", http_listen="127.0.0.1:0", inspector=True)
        with started(settings) as server:
            token = write_sample(server)
            with Client(server.target) as client:
                client.semantic_search("lin", "猫", at_least=token)
                client.semantic_search("sam", "cat", at_least=token)
            yield Inspected(server)


def capture_recall(browser: Browser, inspected: Inspected) -> Iterator[tuple[str, Page]]:
    """Yield a page with a recall in English for each theme, and the name of its screenshot."""
    page = recalled(inspected.page(browser, "sam", TRIP))
    page.click(".statement .place")
    page.until("document.querySelectorAll('.ticks i').length")
    for scheme, name in (("light", "recall"), ("dark", "recall-dark")):
        page.prefer(color_scheme=scheme)
        page.value("document.querySelector('#recall').scrollTo(0, 0)")
        yield name, page


def capture_scores(browser: Browser, inspected: Inspected) -> Iterator[tuple[str, Page]]:
    """Yield a page with the score components of a recall, and the name of its screenshot."""
    page = recalled(inspected.page(browser, "sam", TRIP))
    page.value("document.querySelector('.found-messages h3').scrollIntoView()")
    yield "scores", page


def capture_recall_on_phone(browser: Browser, inspected: Inspected) -> Iterator[tuple[str, Page]]:
    """Yield a phone-sized page with a recall in English for each theme, and the name of its screenshot."""
    page = recalled(browser.page(inspected.address("sam", TRIP), width=390, height=780))
    for scheme in ("light", "dark"):
        page.prefer(color_scheme=scheme)
        yield f"phone-{scheme}", page


def capture_chinese_recall_on_phone(browser: Browser, inspected: Inspected) -> Iterator[tuple[str, Page]]:
    """Yield a phone-sized page with a recall in Chinese and the dark theme, and the name of its screenshot."""
    page = browser.page(inspected.address("lin", "我对什么过敏？"), width=390, height=780)
    page.prefer(color_scheme="dark")
    page.click("#language")
    page.until("document.querySelector('#user').textContent === 'lin'")
    yield "phone", recalled(page)


def main(folder: Path) -> None:
    """Write the screenshots to a folder."""
    folder.mkdir(exist_ok=True)
    with running_sample_server() as inspected, driven() as browser:
        for scene in (capture_recall, capture_scores, capture_recall_on_phone, capture_chinese_recall_on_phone):
            for name, page in scene(browser, inspected):
                page.command("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
                page.value(STILL)
                (folder / f"inspector-{name}.png").write_bytes(page.picture())


if __name__ == "__main__":
    show_help(__doc__)
    main(Path(sys.argv[1]))
