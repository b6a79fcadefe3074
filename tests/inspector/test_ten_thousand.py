"""A user with 10,000 messages: scrolling and searching cause no long tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inspector.inspector_page import ROWS
from web.chromium import MISSING, PROGRAM

from chat_messages import new_message
from nomemory.client import Client

if TYPE_CHECKING:
    from inspector.inspector_page import Inspected
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(240)]
MANY, BATCH = 10_000, 1000
LONGEST_MS = 50
DAY_S = 86_400
SETTLED = """(async line => { const at = line.scrollTop; await new Promise(done => setTimeout(done, 250));
  return at === line.scrollTop })(document.querySelector('#line'))"""
"""JavaScript condition: scrolling has stopped."""
TOPICS = "harbour violin garden ferry bakery orchard kettle lantern 今天的茶很好喝 我们去看海".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def talkative(inspected: Inspected) -> str:
    """A user with unevenly distributed messages, 700 of them at one time."""
    with Client(inspected.server.target) as client:
        for start in range(0, MANY, BATCH):
            written = client.write([message(number) for number in range(start, start + BATCH)])
        client.lexical_search("much", "harbour", at_least=written.write_token)
    return "much"


def message(number: int) -> Any:  # noqa: ANN401 - of generated code
    at = 5000 if 5000 <= number < 5700 else number
    ts = 1_500_000_000 + at * 600 + (at // 1000) * 200 * DAY_S
    topic = TOPICS[number % len(TOPICS)]
    return new_message(
        "much", f"n{number:05}", f"Message {number}: about the {topic}, {'and so on, ' * (number % 9)}.", ts
    )


def test_any_position_shows_its_message(inspected: Inspected, browser: Browser, talkative: str) -> None:
    page = inspected.page(browser, talkative)
    for index in (9999, 0, 5003, 5350, 5699, 5700, 2500, 7777, 7650, 9100):
        page.value(f"document.querySelector('#line').scrollTop = {index} * 76 - 200")
        page.until(f"document.querySelector('#line-{index}')?.innerText.includes('Message {index}:')")
    assert page.value("document.querySelectorAll('#line [role=option]').length") < 60
    assert page.complaints() == []


def test_scrolling_and_searching_have_no_long_tasks(inspected: Inspected, browser: Browser, talkative: str) -> None:
    page = inspected.page(browser, talkative)
    page.until("document.querySelector('#line-9999')")
    page.command("Tracing.start", categories="toplevel", transferMode="ReportEvents")
    for turn in range(12):
        page.command("Input.dispatchMouseEvent", type="mouseWheel", x=300, y=400, deltaX=0, deltaY=-3000 - 200 * turn)
    page.until(SETTLED)
    page.value("document.querySelector('#line').scrollTop = 300000")
    page.until("document.querySelector('#line-3950')?.innerText.includes('Message 3950:')")
    page.value("document.querySelector('#line').focus()")
    for key in ("Home", "PageDown", "ArrowDown", "End", "PageUp"):
        page.press(key)
    page.until(f"{ROWS}.some(row => row.innerText.includes('Message 9999:'))")
    for end in range(1, len("harbour ferry") + 1):
        page.write("#words", "harbour ferry"[:end])
    page.until("document.querySelectorAll('#hits mark').length > 5")
    for _ in range(4):
        page.command("Input.dispatchMouseEvent", type="mouseWheel", x=300, y=400, deltaX=0, deltaY=2000)
    page.until("document.querySelector('.found').textContent === 'More than 100 results, best first'")
    page.command("Tracing.end")
    tasks = tasks_ms(page)
    assert len(tasks) > 300
    assert max(tasks) < LONGEST_MS, sorted(tasks)[-5:]


def tasks_ms(page: Page) -> list[float]:
    """Return the CPU times of the tasks of the page's main thread."""
    trace = wait_for_trace(page)
    events = [event for part in trace for event in part["value"]]
    threads = {(item["pid"], item["tid"]) for item in events if item.get("args", {}).get("name") == "CrRendererMain"}
    return [
        item["tdur"] / 1000
        for item in events
        if item["name"] in {"RunTask", "ThreadControllerImpl::RunTask"} and (item["pid"], item["tid"]) in threads
        if "tdur" in item
    ]


def wait_for_trace(page: Page) -> list[dict[str, Any]]:
    """Return the parts of the complete trace."""
    while not page.events("Tracing.tracingComplete"):
        page.value("new Promise(done => setTimeout(done, 20))")
    return page.events("Tracing.dataCollected")
