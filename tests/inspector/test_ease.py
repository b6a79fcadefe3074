"""Accessibility: screen readers, keyboard, small screens, both languages and both themes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inspector.inspector_page import KOCHI, recalled
from web.chromium import MISSING, PROGRAM

if TYPE_CHECKING:
    from inspector.inspector_page import Inspected
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(240)]
RULES = {"light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "dark": ["wcag2aa", "wcag21aa"]}
"""The dark theme differs only in its colors."""
STILL = """document.getAnimations().every(
  animation => animation.playState !== 'running' || animation.effect.getComputedTiming().endTime === Infinity)"""
"""JavaScript condition: no finite animation is running, so colors are final."""
VIOLATIONS = """(rules => axe.run(document, {runOnly: rules}).then(report => report.violations.map(
  rule => rule.id + ': ' + rule.nodes.map(node => node.html.slice(0, 99) + node.any.map(fix => ' ' + fix.message)))))"""
WIDE = """[...document.querySelectorAll('body *')].filter(node => node.checkVisibility() && !node.closest('.unseen, h1')
  && node.getBoundingClientRect().right > innerWidth + 1).map(node => node.outerHTML.slice(0, 120))"""
SMALL = """[...document.querySelectorAll('button, summary, select, textarea, a, input:not([type=checkbox]), '
  + '[role=option], label:has([type=checkbox])')].filter(node => node.checkVisibility() && !node.matches('.skip, p a')
  && node.getBoundingClientRect().height < 44).map(node => node.outerHTML.slice(0, 120))"""
"""Visible controls that are too low for touch. Links in a sentence are exempt."""
FOCUSED = """(node => ({id: node.id || node.className || node.tagName, outline: getComputedStyle(node).outlineStyle,
  seen: node.checkVisibility()}))(document.activeElement)"""


def axe() -> str:
    """Return the script of axe-core from its package in the development group."""
    package = find_spec("axe_core_python")
    if package is None or package.origin is None:
        pytest.skip("needs axe-core: pip install axe-core-python")
    return Path(package.origin).with_name("axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def sam(inspected: Inspected, browser: Browser) -> Page:
    page = recalled(inspected.page(browser, "sam", KOCHI))
    page.click(".statement .place")
    page.click(".step")
    page.until("document.querySelector('.brought .place')")
    page.click(".score summary")
    page.until(STILL)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_panes_have_no_accessibility_violations(sam: Page, scheme: str) -> None:
    sam.prefer(color_scheme=scheme)
    sam.command("Runtime.evaluate", expression=axe())
    violations: dict[str, Any] = {}

    def look(pane: str) -> None:
        sam.until(STILL)
        violations[pane] = sam.value(f"{VIOLATIONS}({RULES[scheme]})")

    for pane in ("compare", "state", "recall"):
        sam.click(f"#tab-{pane}")
        sam.until(f"document.querySelectorAll('.state-card').length || '{pane}' !== 'state'")
        look(pane)
    sam.write("#words", "Kochi")
    sam.until("document.querySelector('#hits mark')")
    look("search")
    sam.press("Escape")
    sam.click("#user")
    sam.until("document.querySelectorAll('#users [role=option]').length")
    look("users")
    sam.press("Escape")
    sam.until("!document.querySelector('dialog[open]')")
    assert {pane: item for pane, item in violations.items() if item} == {}


def test_page_fits_a_narrow_screen(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", KOCHI, width=360)
    recalled(page)
    for pane in ("messages", "recall", "compare", "state"):
        page.click(f"#tab-{pane}")
        page.until(f"document.querySelector('#{pane}').checkVisibility()")
        assert page.value(WIDE) == [], pane
        assert page.value("document.documentElement.scrollWidth") <= 360
    page.click("#tab-recall")
    page.click(".statement .place")
    page.until("document.querySelector('#messages').checkVisibility() && !document.querySelector('.card').hidden")
    page.click("#language")
    assert page.value(WIDE) == []
    left, edge = page.value(
        """(day => { day.textContent = '2025年11月23日'; return [day, day.closest('.row')].map(
        node => node.getBoundingClientRect().left) })(document.querySelector('#line [aria-selected=true] .day'))"""
    )
    assert left >= edge


def test_touch_targets_and_header_are_44_pixels_high(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", KOCHI, width=390)
    page.until(f"{SMALL}.length === 0 && document.querySelector('.empty').checkVisibility()")
    recalled(page)
    page.click(".step")
    page.click(".score summary")
    page.click("#recall .ask summary")
    for pane in ("messages", "recall", "compare", "state"):
        page.click(f"#tab-{pane}")
        page.until(f"document.querySelector('#{pane}').checkVisibility()")
        assert page.value(SMALL) == [], pane
    heights = page.value(
        "['.bar', '.tabs'].map(selector => document.querySelector(selector).getBoundingClientRect().height)"
    )
    assert heights[0] == 44
    assert heights[1] <= 46
    page.click("#user")
    page.until("document.querySelectorAll('#users [role=option]').length")
    assert page.value(SMALL) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_api_explorer_is_accessible(inspected: Inspected, browser: Browser, width: int) -> None:
    page = browser.page(f"{inspected.server.http}/", width=width)
    page.click("details summary")
    page.until("document.querySelector('details input')?.value === 'lin'")  # the example request
    page.click("details .go")
    page.until("document.querySelector('details pre').textContent.includes('\"lin-')")
    assert page.text("details pre").startswith("200 OK")
    assert page.value(WIDE) == []
    assert width > 390 or page.value(SMALL) == []
    page.command("Runtime.evaluate", expression=axe())
    for scheme, rules in RULES.items():
        page.prefer(color_scheme=scheme)
        assert page.value(f"{VIOLATIONS}({rules})") == [], scheme
    assert page.complaints() == []


def test_tab_key_reaches_all_controls_with_visible_focus(sam: Page) -> None:
    sam.reload()
    sam.until("document.querySelectorAll('#line .row').length")
    reached = []
    for _ in range(11):
        sam.press("Tab")
        reached.append(sam.value(FOCUSED))
    names = [item["id"] for item in reached]
    for name in ("skip", "user", "language", "theme", "tab-recall", "words", "line", "question"):
        assert name in names, names
    assert all(item["seen"] and item["outline"] != "none" for item in reached), reached


def test_skip_link_focuses_the_question(sam: Page) -> None:
    sam.reload()
    sam.press("Tab")
    sam.press("Enter")
    sam.until("document.activeElement.id === 'question'")
    assert sam.value("location.hash") == "#user=sam"


def test_arrow_keys_move_through_the_tabs(sam: Page) -> None:
    sam.until("document.querySelector('#tab-compare').checkVisibility()")  # after the skills are loaded
    sam.value("document.querySelector('#tab-recall').focus()")
    for key, pane in (
        ("ArrowRight", "compare"),
        ("ArrowRight", "state"),
        ("ArrowRight", "recall"),
        ("ArrowLeft", "state"),
    ):
        sam.press(key)
        sam.until(f"document.querySelector('#{pane}').checkVisibility() && document.activeElement.id === 'tab-{pane}'")


def test_reduced_motion_disables_animations(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", KOCHI)
    page.prefer(reduced_motion="reduce")
    recalled(page)
    assert page.value("document.getAnimations().length") == 0
