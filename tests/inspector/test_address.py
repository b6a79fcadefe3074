"""The URL of the page determines the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from inspector.inspector_page import HAS_ASKED, KOCHI, ROWS, recalled
from web.chromium import MISSING, PROGRAM

if TYPE_CHECKING:
    from inspector.inspector_page import Inspected
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(180)]


def wait_for_user(page: Page, user: str) -> None:
    """Wait until the URL, the header and the messages are those of a user."""
    page.until(f"location.hash === '#user={user}' && document.querySelector('#user').textContent === '{user}'")
    page.until(f"{ROWS}.length && {ROWS}[0].innerText")


def asked_about(page: Page, question: str = KOCHI) -> set[str]:
    """Run a recall and return the users of the evidence."""
    page.write("#question", question)
    recalled(page)
    message_ids = page.value("[...document.querySelectorAll('li[data-message]')].map(node => node.dataset.message)")
    return {message_id.split("-")[0] for message_id in message_ids}


def test_user_in_url_determines_user_of_recall(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", KOCHI)
    assert asked_about(page) == {"sam"}
    page.value("location.hash = '#user=lin'")
    wait_for_user(page, "lin")
    assert page.value("document.querySelectorAll('li[data-message], .steps li').length") == 0
    assert asked_about(page, "年糕的药") == {"lin"}
    assert page.complaints() == []


def test_back_button_returns_to_previous_user(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    page.click("#user")
    page.write("#user-search", "lin")
    page.until("document.querySelectorAll('#users [role=option]:not([hidden])').length === 1")
    page.press("Enter")
    wait_for_user(page, "lin")
    page.value("history.back()")
    wait_for_user(page, "sam")
    assert asked_about(page) == {"sam"}
    page.value("history.forward()")
    wait_for_user(page, "lin")


def test_url_without_user_opens_user_dialog(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    page.value("location.hash = ''")
    page.until("document.querySelector('dialog.choose').open && !document.querySelector('.extent').textContent")
    assert page.value(f"{ROWS}.length") == 0
    page.value("history.back()")
    wait_for_user(page, "sam")
    assert not page.value("document.querySelector('dialog.choose').open")


@pytest.mark.parametrize("width", [390, 1280])
def test_question_in_url_is_focused_and_enter_asks_it(inspected: Inspected, browser: Browser, width: int) -> None:
    page = browser.page(inspected.address("sam", KOCHI), width=width)
    page.until("document.activeElement.id === 'question'")
    assert page.value("document.activeElement.selectionStart") == len(KOCHI)
    page.press("Enter")
    page.until(HAS_ASKED)
    assert page.text(".steps q") == KOCHI


def test_question_entered_before_user_selection_is_asked_afterwards(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", KOCHI)
    page.value("location.hash = ''")
    page.until("document.querySelector('dialog.choose').open")
    page.press("Escape")
    page.value("document.querySelector('#recall form').requestSubmit()")
    page.value("location.hash = '#user=sam'")
    page.until(HAS_ASKED)
    assert page.text(".steps q") == KOCHI


def test_url_drops_question_and_accepts_new_token(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    page.value("location.hash = '#user=lin&question=secret'")
    wait_for_user(page, "lin")
    page.value("location.hash = '#token=anew'")
    page.until("sessionStorage.getItem('nomemory-inspect-token') === 'anew' && location.hash === ''")
