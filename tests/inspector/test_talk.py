"""The messages of a user in the browser: user dialog, timeline, and search."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from inspector.inspector_page import KOCHI, ROWS, recalled
from web.chromium import MISSING, PROGRAM

from chat_messages import new_message
from nomemory.v1.ingest_service_pb2 import WriteMessagesRequest

if TYPE_CHECKING:
    from inspector.inspector_page import Inspected
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(180)]
ACTIVE = "document.querySelector('#line [aria-selected=true]')"
LISTED = "[...document.querySelectorAll('#users [role=option]:not([hidden]) .id')].map(node => node.textContent)"


@pytest.fixture(scope="module")
def sam(inspected: Inspected, browser: Browser) -> Page:
    return inspected.page(browser, "sam")


def test_user_is_selected_by_id_prefix_with_the_keyboard(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser)
    page.until(f"['lin', 'mei', 'sam'].every(id => {LISTED}.includes(id))")
    page.write("#user-search", "sa")
    page.until(f"{LISTED}.join() === 'sam'")
    page.press("Enter")
    page.until(f"{ROWS}.length")
    assert page.text("#user") == "sam"
    assert page.text(".extent").startswith("146 messages, Mar 2025 – Mar 2026")
    assert page.complaints() == []


def test_unlisted_user_id_can_be_entered(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser)
    page.write("#user-search", "nobody")
    page.click("dialog .link")
    page.until("document.querySelector('.extent').textContent === 'No messages'")


def test_timeline_starts_at_newest_message(sam: Page) -> None:
    sam.reload()
    assert sam.value("document.querySelectorAll('#line [role=option]').length") < 40
    last = "document.querySelector('#line-145')"
    sam.until(f"{last}?.getBoundingClientRect().bottom <= innerHeight + 1")


def test_arrow_keys_select_and_enter_opens_a_message(sam: Page) -> None:
    sam.value("document.querySelector('#line').focus()")
    for key, at in (("Home", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("PageDown", None), ("Home", 0)):
        sam.press(key)
        sam.until(f"{ACTIVE}?.dataset.index {'> 3' if at is None else f'== {at}'}")
        assert sam.value("document.querySelector('#line').getAttribute('aria-activedescendant')").startswith("line-")
    sam.press("Enter")
    assert "sam-0001" in sam.text(".card")
    sam.value("document.querySelector('.card').focus()")
    sam.press("Escape")
    sam.until("document.querySelector('.card').hidden && document.activeElement.id === 'line'")


def test_search_as_you_type_highlights_matches(sam: Page) -> None:
    for text, many in (("Bisc", None), ("Biscuit", 2), ("Biscuit Ngozi", None), ("Kochi", 2)):
        sam.write("#words", text)
        if many:
            hits = "document.querySelectorAll('#hits [role=option]:not([hidden])')"
            first = "document.querySelector('#hits-0 mark')?.textContent"
            sam.until(f"{hits}.length >= {many} && {first} === '{text}'")
    sam.until("document.querySelector('.found').textContent === '2 results, best first'")
    sam.press("ArrowDown")
    sam.press("Enter")
    sam.until("document.querySelector('.card .whole mark')?.textContent === 'Kochi'")
    sam.press("Escape")
    sam.until("document.querySelector('#words').value === ''")
    sam.until(f"{ACTIVE}?.querySelector('mark')?.textContent === 'Kochi'")
    assert sam.complaints() == []


def test_retracted_message_is_struck_through_and_links_to_retraction(
    inspected: Inspected, browser: Browser, user: str
) -> None:
    wrong, right = (
        new_message(user, "wrong", "I live in Lyon.", 1),
        new_message(user, "right", "Not so.", 2, retracts=["wrong"]),
    )
    inspected.server.ingest.WriteMessages(WriteMessagesRequest(messages=[wrong, right]))
    page = inspected.page(browser, user)
    page.until("document.querySelector('#line .retracted .words')?.textContent === 'I live in Lyon.'")
    page.click("#line .retracted")
    page.until("document.querySelector('.card .whole.retracted')?.textContent === 'I live in Lyon.'")
    page.click(".card dd button")
    page.until("document.querySelector('.card .whole:not(.retracted)')?.textContent === 'Not so.'")
    assert page.text(".card dl").replace("\n", " ").endswith("Retracts wrong")
    page.click(".card dd button")
    page.until("document.querySelector('.card .whole.retracted')")
    assert page.complaints() == []


def test_chinese_matches_are_highlighted(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "lin")
    page.write("#words", '"不吃辣"')
    page.until("[...document.querySelectorAll('#hits mark')].some(node => node.textContent === '不吃辣')")


def test_spans_count_code_points(sam: Page) -> None:
    script = """import('/inspect/spans.js').then(({marked}) =>
      marked('😀👨‍👩‍👧é辣!', [{start: 6, end: 8}, {start: 8, end: 9}]).map(node => node.outerHTML ?? node).join('|'))"""
    assert sam.value(script) == "😀👨‍👩‍👧|<mark>é辣</mark>|<mark>!</mark>"


def test_language_choice_is_stored(sam: Page) -> None:
    sam.click("#language")
    sam.until("document.querySelector('#messages h2').textContent === '消息'")
    assert sam.value("document.documentElement.lang") == "zh-CN"
    assert sam.text("#line .speaker") in {"用户", "助手", "系统"}
    sam.reload()
    sam.until("document.querySelector('#messages h2')?.textContent === '消息'")
    sam.click("#language")
    sam.until("document.querySelector('#messages h2').textContent === 'Messages'")


def test_dates_follow_the_language_of_the_page(inspected: Inspected, browser: Browser) -> None:
    page = recalled(inspected.page(browser, "sam", KOCHI))
    page.click(".statement .place")
    page.until("!document.querySelector('.card').hidden")
    page.click("#tab-state")
    page.until("document.querySelector('.state-card')")
    page.click("#tab-recall")
    dates = (
        "[...document.querySelectorAll('time:not(.clock), .row .day')].map(date => date.textContent).filter(Boolean)"
    )
    page.until(f"{dates}.length > 10")
    assert not [date for date in page.value(dates) if not re.match(r"[A-Z][a-z]{2} \d+, \d{4}", date)]
    page.click("#language")
    page.until("document.documentElement.lang === 'zh-CN'")
    page.until("/^\\d/.test(document.querySelector('#line .day:not(:empty)').textContent)")
    assert not [date for date in page.value(dates) if not re.match(r"\d{4}年\d+月\d+日", date)]
    assert "2025年3月 – 2026年3月" in page.text(".extent")


def test_search_results_follow_the_language_of_the_page(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    page.write("#words", "Kochi")
    page.until("document.querySelector('#hits-0 .day')?.textContent.startsWith('Nov 23, 2025')")
    page.click("#language")
    page.until("document.querySelector('#hits-0 .day').textContent.startsWith('2025年11月23日')")
    page.until("document.querySelector('.found').textContent === '2 条结果，按相关度排序'")


def test_timeline_starts_at_newest_message_on_a_phone(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", width=390)
    page.until("document.querySelector('.extent').textContent")
    page.click("#tab-messages")
    page.until("document.querySelector('#line-145')?.getBoundingClientRect().bottom <= innerHeight + 1")


def test_theme_choice_is_stored(sam: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    sam.prefer(color_scheme="light")
    light = sam.value(ground)
    sam.prefer(color_scheme="dark")
    dark = sam.value(ground)
    assert light != dark
    sam.click("#theme")
    sam.until(f"{ground} === '{light}'")
    sam.reload()
    sam.until(f"{ground} === '{light}'")


def test_errors_are_shown(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    page.command("Network.setBlockedURLs", urls=["*lexical_search*", "*index_status*"])
    page.write("#words", "Kochi")
    page.until("document.querySelector('#notice').checkVisibility()")
    assert page.text("#notice") == "The call failed: the server does not respond"
    page.click("#tab-state")
    page.until("document.querySelector('#state .verdict.failed')?.innerText.includes('does not respond')")


def test_plural_forms_of_strings(sam: Page) -> None:
    script = """(async () => { const {setLanguage, word} = await import('/inspect/i18n.js'); const found = [];
      for (const language of ['en', 'zh']) {
        setLanguage(language);
        for (const n of [0, 1, 2]) found.push(word('step.hits', {n}));
      }
      setLanguage('en'); return found })()"""
    assert sam.value(script) == ["0 messages", "1 message", "2 messages", "0 条消息", "1 条消息", "2 条消息"]
