"""The search of messages by author, date and conversation, and the suggested questions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from inspector.inspector_page import HAS_ASKED, SAMPLE
from web.chromium import MISSING, PROGRAM

if TYPE_CHECKING:
    from inspector.inspector_page import Inspected
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(180)]
SUMMARY = "document.querySelector('.found').textContent"
FIRST_HIT = "document.querySelector('#hits-0 .words').textContent"
SUGGESTED = "[...document.querySelectorAll('.samples .sample')].map(sample => sample.textContent)"
MESSAGES: list[dict[str, Any]] = [
    message for line in SAMPLE.read_text("utf-8").splitlines() if (message := json.loads(line))["user_id"] == "sam"
]
CONVERSATION = "sam-2026-02-15"


@pytest.fixture(scope="module")
def sam(inspected: Inspected, browser: Browser) -> Page:
    return inspected.page(browser, "sam")


@pytest.fixture(autouse=True)
def _clear(sam: Page) -> None:
    sam.value("document.querySelector('#words').focus()")
    sam.press("Escape")
    sam.until("document.querySelector('.hits').hidden")


def choose(page: Page, name: str, value: str) -> None:
    """Set a filter and dispatch the input event of the page."""
    page.value(
        f"""(field => {{ field.value = {json.dumps(value)}; field.dispatchEvent(new Event('input')) }})(
        document.querySelector('#filter-{name}'))"""
    )


def test_messages_are_listed_by_author(sam: Page) -> None:
    choose(sam, "role", "ROLE_SYSTEM")
    sam.until(f"{SUMMARY} === '2 messages, newest first'")
    expected = [message["content"] for message in MESSAGES if message["role"] == "system"]
    assert sam.value(FIRST_HIT) == expected[-1]
    assert sam.text(".filters summary") == "1 filter active"


def test_messages_are_listed_by_days_and_the_last_day_is_included(sam: Page) -> None:
    choose(sam, "from", "2026-03-09")
    choose(sam, "to", "2026-03-09")
    sam.until(f"{SUMMARY} === '7 messages, newest first'")
    choose(sam, "from", "2026-03-10")
    sam.until(f"{SUMMARY} === 'The first day is after the last day.'")


def test_chosen_days_are_shown_in_the_language_of_the_page(sam: Page) -> None:
    choose(sam, "from", "2026-03-09")
    sam.until("document.querySelector('label:has(#filter-from)').textContent === 'From Mar 9, 2026'")
    sam.click("#language")
    sam.until("document.querySelector('label:has(#filter-from)').textContent === '起始日期 2026年3月9日'")
    sam.click("#language")
    sam.value("document.querySelector('#words').focus()")
    sam.press("Escape")
    sam.until("!document.querySelector('label:has(#filter-from) time').checkVisibility()")


def test_messages_of_a_conversation_are_listed_in_reading_order(sam: Page) -> None:
    choose(sam, "conversation", CONVERSATION)
    sam.until(f"{SUMMARY} === '8 messages, oldest first'")
    expected = [message["content"] for message in MESSAGES if message["conversation_id"] == CONVERSATION]
    assert sam.value(FIRST_HIT) == expected[0]


def test_words_are_searched_among_the_filtered_messages(sam: Page) -> None:
    sam.write("#words", "Biscuit")
    sam.until(f"{SUMMARY} === '2 results, best first'")
    choose(sam, "conversation", "sam-2025-05-28")
    sam.until(f"{SUMMARY} === '1 result'")
    choose(sam, "role", "ROLE_ASSISTANT")
    sam.until(f"{SUMMARY} === 'No results'")


def test_message_lists_its_conversation(sam: Page) -> None:
    sam.write("#words", "Ngozi")
    sam.until("document.querySelector('#hits mark')")
    sam.click("#hits-0")
    sam.click(".card dd .link")
    sam.until(f"{SUMMARY}.endsWith('oldest first')")
    assert sam.value("document.querySelector('#filter-conversation').value").startswith("sam-20")
    assert sam.complaints() == []


@pytest.mark.parametrize("user", ["sam", "lin"])
def test_suggested_questions_are_answered_by_the_messages_of_the_user(
    inspected: Inspected, browser: Browser, user: str
) -> None:
    page = inspected.page(browser, user)
    if user == "lin":
        page.click("#language")
    page.until(f"{SUGGESTED}.length === 3")
    questions = page.value(SUGGESTED)
    assert len(set(questions)) == 3
    for number in (1, 2, 3):
        if number > 1:
            page.reload()
            page.until(f"{SUGGESTED}.length === 3")
        page.click(f".samples li:nth-child({number}) .sample")
        page.until(HAS_ASKED)
        verdict = page.value("document.querySelector('#recall .verdict strong').dataset.word")
        question = questions[number - 1]
        assert verdict in {"verdict.supported", "verdict.possible", "verdict.conflicting"}, question
        topic = re.sub(r"^What did I say about |^关于|[，?].*$", "", question)
        assert topic in page.text(".view"), question
    if user == "lin":
        page.click("#language")  # the choice is stored
    assert page.complaints() == []
