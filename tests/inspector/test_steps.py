"""The steps of a recall: selection, keyboard navigation, and replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from inspector.inspector_page import KOCHI, recalled
from web.chromium import MISSING, PROGRAM

if TYPE_CHECKING:
    from inspector.inspector_page import Inspected
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(180)]
CHOSEN = "[...document.querySelectorAll('.step')].findIndex(node => node.getAttribute('aria-current') === 'step')"
TICKS = "document.querySelectorAll('.ticks i').length"
BROUGHT = "[...document.querySelectorAll('.played:not([hidden]) .brought li')]"


@pytest.fixture
def sam(inspected: Inspected, browser: Browser) -> Page:
    return recalled(inspected.page(browser, "sam", KOCHI))


def test_selected_step_shows_arguments_and_results(sam: Page) -> None:
    sam.click(".step")
    many = int(sam.text(".step .why").split()[0])
    sam.until(f"{BROUGHT}.length === {many} && {TICKS} === {many}")
    assert KOCHI in sam.text(".played dl")
    assert sam.value(f"{BROUGHT}.every(node => node.querySelector('.moved'))")  # all results are new
    assert sam.text(".player output").startswith("Step 1 of ")
    sam.click(".brought .place")
    sam.until("!document.querySelector('.card').hidden")
    assert sam.complaints() == []


def test_results_of_earlier_steps_are_not_new(sam: Page) -> None:
    sam.click(".steps li:nth-child(3) .step")
    sam.until(f"{BROUGHT}.length")
    known_count = sam.value(f"{BROUGHT}.filter(node => node.className === 'known').length")
    fresh = sam.value(f"{BROUGHT}.filter(node => node.querySelector('.moved')).length")
    assert known_count >= 1
    assert known_count + fresh == sam.value(f"{BROUGHT}.length")


def test_keys_and_buttons_select_steps(sam: Page) -> None:
    last = sam.value("document.querySelectorAll('.step').length") - 1
    assert last >= 2
    evidence = sam.value(TICKS)
    sam.value("document.querySelector('.step').focus()")
    for key, at in (("End", last), ("ArrowUp", last - 1), ("Home", 0), ("ArrowDown", 1), ("ArrowRight", 2)):
        sam.press(key)
        sam.until(f"{CHOSEN} === {at} && document.activeElement === document.querySelectorAll('.step')[{at}]")
        assert sam.value("document.querySelectorAll('.played:not([hidden])').length") == 1
    sam.click(".player .back")
    sam.until(f"{CHOSEN} === 1")
    sam.click(".player .forth")
    sam.until(f"{CHOSEN} === 2")
    sam.value("document.querySelectorAll('.step')[2].focus()")
    sam.press("Escape")
    sam.until(f"{CHOSEN} === -1 && {TICKS} === {evidence}")


def test_player_shows_all_steps_in_order(sam: Page) -> None:
    sam.value(
        """window.seen = []; new MutationObserver(() => seen.push(document.querySelector('.player output').textContent))
        .observe(document.querySelector('.player output'), {childList: true})"""
    )
    sam.click(".player .play")
    last = sam.value("document.querySelectorAll('.step').length")
    sam.until(f"{CHOSEN} === {last - 1} && document.querySelector('.play').getAttribute('aria-pressed') === 'false'")
    assert sam.value("seen") == [f"Step {n} of {last}" for n in range(1, last + 1)]


def test_neighbors_step_shows_first_words_of_anchor(sam: Page) -> None:
    around = "document.querySelector('.t-neighbors').closest('.step').querySelector('q').textContent"
    sam.until(f"{around}.startsWith('Exciting admin: visa')")
    assert "sam-0" not in sam.text(".steps")
