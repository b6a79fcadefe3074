"""Tests for `./scripts/demo --inspect`, which shows a recall of the sample in the browser."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inspector.inspector_page import ROWS, recalled
from web.chromium import MISSING, PROGRAM

if TYPE_CHECKING:
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[2]
PIECES = """[...document.querySelector('section > .evidence-list > li').querySelectorAll('.plus i')].map(piece => {
  const {x, y, width, height} = piece.getBoundingClientRect();
  return [Math.floor(x + width / 2), Math.floor(y + 2), getComputedStyle(piece).backgroundColor] })"""
COLOURS = """(async (png, places) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
  canvas.drawImage(image, 0, 0);
  return places.map(([x, y]) => `rgb(${[...canvas.getImageData(x, y, 1, 1).data].slice(0, 3).join(', ')})`);
})"""


@contextmanager
def run_demo() -> Iterator[str]:
    """Run the demo until the context is left; return the first address that it prints."""
    script = subprocess.Popen(
        [ROOT / "scripts" / "demo", "--inspect"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={
            **os.environ,
            "NOMEMORY_EMBEDDER": "none",
            "NOMEMORY_EMBEDDING_DIMENSION": "4",
        },  # lexical search is sufficient
    )
    try:
        assert script.stdout
        yield next(line.strip() for line in script.stdout if re.match(r"http://.*#user=sam", line))
    finally:
        script.terminate()
        script.wait(60)


def test_demo_opens_a_recall_in_the_inspector(browser: Browser, tmp_path: Path) -> None:
    with run_demo() as address:
        page = browser.page(address)
        page.until(f"{ROWS}.length && document.activeElement.id === 'question'")
        recalled(page)
        page.until("document.querySelectorAll('.ticks i').length")
        assert "Kochi" in page.text(".view")
        page.value("document.querySelector('.found-messages').scrollIntoView()")
        page.value("Promise.all(document.getAnimations().map(animation => animation.finished))")
        picture = page.picture()
        (tmp_path / "recall.png").write_bytes(picture)
        pieces = page.value(PIECES)
        assert len(pieces) >= 3
        assert colours(browser, picture, pieces) == [colour for _, _, colour in pieces]
        assert len({colour for _, _, colour in pieces}) == len(pieces)
        assert page.complaints() == []


def colours(browser: Browser, picture: bytes, points: list[list[object]]) -> list[str]:
    """Return the colors of an image at some positions."""
    page: Page = browser.page()
    colors: list[str] = page.value(f"{COLOURS}('{base64.b64encode(picture).decode()}', {points!r})")
    return colors


def test_demo_rejects_unknown_arguments() -> None:
    done = subprocess.run([ROOT / "scripts" / "demo", "--other"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: scripts/demo [--inspect]" in done.stderr
