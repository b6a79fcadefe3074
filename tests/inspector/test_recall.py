"""A recall in the browser: steps, scores, memory view, evidence, comparison of skills, and export."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.protobuf.json_format import MessageToJson
from inspector.inspector_page import HAS_ASKED, KOCHI, ROOT, recalled
from web.chromium import MISSING, PROGRAM

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import recall_service_pb2 as r

if TYPE_CHECKING:
    from inspector.inspector_page import Inspected
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(180)]
ANSWERED = "document.querySelector('#recall .verdict strong')?.dataset.word"
WITHOUT_ANSWER = """void (window.fetch = (call => async (address, options) => {
  const response = await call(address, options);
  if (!String(address).includes('recall')) return response;
  const text = (await response.text()).replaceAll(/VERDICT_[A-Z]+/g, 'VERDICT_INSUFFICIENT');
  return new Response(text.replaceAll('"memoryView"', '"none"'), response);
})(fetch))"""
"""JavaScript that takes the answer out of each recall and leaves the evidence."""
BARS = "[...document.querySelectorAll('.bar-of-score')]"


@pytest.fixture(scope="module")
def sam(inspected: Inspected, browser: Browser) -> Page:
    return recalled(inspected.page(browser, "sam", KOCHI))


def test_steps_are_shown_and_announced_as_they_happen(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", KOCHI)
    page.value(
        """window.told = []; new MutationObserver(() => told.push(document.querySelector('#live').textContent))
        .observe(document.querySelector('#live'), {childList: true});
        window.shown = []; new MutationObserver(() => shown.push([document.querySelectorAll('.steps > li').length,
        Boolean(document.querySelector('.view'))]))
        .observe(document.querySelector('#recall'), {childList: true, subtree: true})"""
    )
    recalled(page)
    announcements = page.value("told")
    assert announcements[0] == "Searching"
    assert re.fullmatch(r"Step 1: \d+ messages", announcements[1])
    assert announcements[-1] in {"Probably answered", "Probably not answered"}
    assert [1, False] in page.value("shown")
    assert page.text(".steps li q") == KOCHI
    assert page.complaints() == []


def test_score_bars_show_their_components(sam: Page) -> None:
    assert sam.value(f"{BARS}.length") == sam.value(
        "document.querySelectorAll('.found-messages li[data-message]').length"
    )
    widths = sam.value(f"{BARS}.map(bar => bar.querySelector('.plus').getBoundingClientRect().width)")
    assert max(widths) > 50
    label = sam.value(f"{BARS}[0].getAttribute('aria-label')")
    parts = [float(part.rpartition(" ")[2]) for part in label.split(", ")]
    total = float(sam.value("document.querySelector('.score output').textContent"))
    assert sum(parts) == pytest.approx(total, abs=0.05)
    pieces = sam.value(f"[...{BARS}[0].querySelectorAll('i')].map(node => node.getBoundingClientRect().width)")
    assert len(pieces) == len(parts)
    assert sum(pieces) / max(widths) == pytest.approx(1, abs=0.1)


def test_components_are_named_and_explained(sam: Page) -> None:
    names = sam.value(
        """[...document.querySelectorAll('.bar-of-score')[0].querySelectorAll('i')]
        .filter(node => node.clientWidth > 90).map(node => [node.innerText, node.className, node.title])"""
    )
    assert names
    for name, colour, title in names:
        assert colour.startswith("c-")
        assert title.startswith(f"{name} ")
    used = set(sam.value("[...document.querySelectorAll('.bar-of-score i')].map(piece => piece.className)"))
    assert set(sam.value("[...document.querySelectorAll('.legend i')].map(piece => piece.className)")) == used
    assert len(used) <= 5
    assert all(sam.value("[...document.querySelectorAll('.legend dd')].map(about => about.innerText)"))


def test_sufficiency_is_shown_once_with_its_threshold(sam: Page) -> None:
    shown = sam.text("#recall .verdict")
    likely = sam.value("document.querySelector('.gauge').getAttribute('aria-valuenow')")
    assert re.findall(r"(\d+)%", shown) == [likely, "50"]
    assert not re.search(r"0\.\d|1\.00", shown)
    filled, tick, whole = sam.value(
        """[document.querySelector('.gauge i').getBoundingClientRect().right, document.querySelector('.gauge b')
        .getBoundingClientRect().x + 1, document.querySelector('.gauge').getBoundingClientRect().toJSON()]"""
    )
    assert (filled - whole["x"]) / whole["width"] == pytest.approx(int(likely) / 100, abs=0.02)
    assert (tick - whole["x"]) / whole["width"] == pytest.approx(0.5, abs=0.02)


def test_evidence_is_in_the_order_of_its_scores(sam: Page) -> None:
    evidence = "document.querySelectorAll('.found-messages > section > .evidence-list > li')"
    scores = sam.value(f"[...{evidence}].map(item => Number(item.querySelector('.score output').textContent))")
    assert len(scores) > 2
    assert scores == sorted(scores, reverse=True)
    ranks = sam.value(f"[...{evidence}].map(item => Number(item.querySelector('.rank').textContent))")
    assert ranks == list(range(1, len(ranks) + 1))
    others = sam.value(
        "[...document.querySelectorAll('.others .score output')].map(score => Number(score.textContent))"
    )
    assert others == sorted(others, reverse=True)


def test_evidence_that_the_answer_quotes_is_marked(sam: Page) -> None:
    marked = sam.value(
        "[...document.querySelectorAll('li[data-message]:has(.cited)')].map(item => item.dataset.message)"
    )
    quoted = sam.value("[...document.querySelectorAll('.view .by time + span')].map(id => id.textContent)")
    assert marked
    assert set(marked) == set(quoted)
    assert len(marked) < sam.value("document.querySelectorAll('li[data-message]').length")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 900)])
def test_answer_is_above_the_steps_and_visible_without_scrolling(
    inspected: Inspected, browser: Browser, width: int, height: int
) -> None:
    page = recalled(browser.page(inspected.address("sam", KOCHI), width=width, height=height))
    top, bottom, steps = page.value(
        """[...['top', 'bottom'].map(side => document.querySelector('.view .statement').getBoundingClientRect()[side]),
        document.querySelector('.steps').getBoundingClientRect().top]"""
    )
    assert 0 < top < bottom < height
    assert bottom < steps
    assert page.value("document.querySelector('#recall').scrollTop + scrollY") == 0


def test_nearest_messages_are_shown_if_there_is_no_answer(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", KOCHI)
    page.value(WITHOUT_ANSWER)
    recalled(page)
    assert page.value(ANSWERED) == "verdict.insufficient"
    assert page.text(".found-messages h3").lower() == "nearest messages"
    nearest, steps = page.value(
        "['.found-messages', '.steps'].map(part => document.querySelector(part).getBoundingClientRect().top)"
    )
    assert nearest < steps
    assert not page.value("document.querySelector('.view')")


def test_page_says_that_no_message_matches(inspected: Inspected, browser: Browser) -> None:
    page = recalled(inspected.page(browser, "sam", "Who won the election?"))
    assert "No message matches the question." in page.text("#recall .verdict")
    assert not page.value("document.querySelector('.found-messages h3')")


def test_model_calls_and_tokens_are_shown(sam: Page) -> None:
    limits = r.RecallLimits(messages_considered=3, model_calls=2)
    limits.token_usage.prompt_tokens, limits.token_usage.completion_tokens = 1200, 34
    limits.token_usage.cached_tokens = 1024
    text = facts(sam, limits)
    assert "2 calls of the chat model" in text
    assert "1,234 tokens (1,200 prompt, 1,024 of them cached; 34 completion)" in text
    assert "chat model" not in facts(sam, r.RecallLimits())


def facts(page: Page, limits: r.RecallLimits) -> str:
    """Return the displayed limits of a recall."""
    answer = MessageToJson(r.RecallResponse(limits=limits))
    script = (
        f"import('/inspect/verdict.js').then(({{facts}}) => facts({{result: {answer}, tookMs: 1}}, {{}}).textContent)"
    )
    return str(page.value(script))


def test_score_values_are_shown(sam: Page) -> None:
    sam.click(".score summary")
    sam.until("document.querySelector('.figures')?.innerText.includes('score of the hybrid search')")
    sam.click(".score summary")


def test_evidence_is_marked_in_the_timeline(sam: Page) -> None:
    many = sam.value("document.querySelectorAll('.found-messages > section > .evidence-list > li').length")
    sam.until(f"document.querySelectorAll('.ticks i').length === {many}")


def test_citation_opens_its_message(sam: Page) -> None:
    sam.click(".statement .place")
    sam.until("document.querySelector('.card .whole mark')")
    quote = sam.value("document.querySelector('.statement .text').textContent")
    assert sam.value("document.querySelector('.card .whole mark').textContent") == quote
    row = "document.querySelector('#line [aria-selected=true]')"
    sam.until(f"{row}?.classList.contains('evidence') && {row}.querySelector('mark')")
    box = sam.value(f"{row}.getBoundingClientRect().toJSON()")
    assert 0 < box["top"] < 800


def test_superseded_statement_is_next_to_the_newer_one(sam: Page) -> None:
    answer = r.RecallResponse()
    new = answer.memory_view.profile.add(text="It is off.")
    new.citations.add(message_id="new", quote="It is off.").ts.FromSeconds(1_700_000_000)
    old = answer.memory_view.profile.add(text="It is on.", superseded_by="new")
    old.citations.add(message_id="old", quote="It is on.").ts.FromSeconds(1_600_000_000)
    shown = drawn(sam, answer)
    assert shown["superseded"] == [["Current", "It is off."], ["Superseded", "It is on."]]


def test_contradictions_are_side_by_side(sam: Page) -> None:
    answer = r.RecallResponse(verdict=r.VERDICT_CONFLICTING)
    conflict = answer.conflicts.add(possible=True)
    conflict.earlier.citations.add(message_id="a", quote="never").ts.FromSeconds(1_600_000_000)
    conflict.later.citations.add(message_id="b", quote="always").ts.FromSeconds(1_700_000_000)
    shown = drawn(sam, answer)
    assert shown["conflict"] == [["Earlier (possible contradiction)", "never"], ["Later", "always"]]


@pytest.mark.parametrize("code", [code for code in r.NoteCode.keys() if code != "NOTE_CODE_UNSPECIFIED"])  # noqa: SIM118
def test_notes_are_translated(inspected: Inspected, browser: Browser, code: str) -> None:
    limits = r.RecallLimits(sufficiency=0.5, sufficiency_threshold=0.2)
    limits.notes.add(code=r.NoteCode.Value(code), count=2, text="In English.")
    answer = MessageToJson(r.RecallResponse(verdict=r.VERDICT_SUPPORTED, limits=limits))
    page = inspected.page(browser, "sam")
    page.click("#language")
    text = page.value(
        f"import('/inspect/verdict.js').then(({{verdict}}) => verdict({{result: {answer}, tookMs: 1}}).textContent)"
    )
    # server text follows: the part of the skill, the error of the model
    has_text = code in {"NOTE_CODE_SKILL_IGNORED", "NOTE_CODE_MODEL_FAILED"}
    assert re.findall(r"[A-Za-z_.]{3,}", text) == (["English."] if has_text else [])


def test_faults_are_translated(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    page.click("#language")
    kinds = [kind for kind in i.FaultKind.keys() if kind != "FAULT_KIND_UNSPECIFIED"]  # noqa: SIM118 - not a mapping
    for kind in kinds:
        text = page.value(
            "import('/inspect/server_state.js').then(({faultsCard}) => "
            f"faultsCard([{{component: 'COMPONENT_CHAT_MODEL', kind: '{kind}'}}]).textContent)"
        )
        assert re.fullmatch(r"大模型: [^_]*[\u4e00-\u9fff][^_]*", text), text
    for component in i.Component.keys():  # noqa: SIM118 - not a mapping
        text = page.value(
            "import('/inspect/server_state.js').then(({faultsCard}) => "
            f"faultsCard([{{component: '{component}', kind: 'FAULT_KIND_TIMEOUT'}}]).textContent)"
        )
        assert component.endswith("UNSPECIFIED") or re.search(r"[\u4e00-\u9fff].*: ", text), text


def text_of(message: str) -> str:
    """Return the contract text of a message, its fields and their comments."""
    contract = (ROOT / "proto" / "nomemory" / "v1" / "ingest_service.proto").read_text("utf-8")
    return contract.partition(f"message {message} {{")[2].partition("\n}")[0].replace("\n  // ", " ")


def drawn(page: Page, answer: r.RecallResponse) -> dict[str, list[list[str]]]:
    """Return the displayed pairs of an answer."""
    return dict(
        page.value(
            f"""import('/inspect/memory_view.js').then(({{memoryView}}) => {{
      const view = memoryView({MessageToJson(answer)}, {{show: () => {{}}}});
      const sides = kind => [...view.querySelectorAll(`.pair.${{kind}} > div`)].map(
        side => [side.querySelector('h5').textContent, side.querySelector('.text').textContent]);
      return {{superseded: sides('superseded'), conflict: sides('conflict')}};
    }})"""
        )
    )


def test_rejected_recall_shows_the_error(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", "Anything?")
    page.click("#recall .ask summary")
    page.value("document.querySelector('#recall select option').value = 'no-such-skill'")
    page.click("#recall .go")
    page.until("document.querySelector('.verdict.failed')")
    assert "there is no skill `no-such-skill`" in page.text(".verdict.failed")
    assert "ERROR_REASON_SKILL_NOT_FOUND" in page.text(".verdict.failed")


def test_sample_question_runs_a_recall(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    assert page.value("document.querySelectorAll('.samples .sample').length") == 3
    question = page.text(".samples .sample")
    page.click(".samples .sample")
    page.until(HAS_ASKED)
    assert page.text(".steps q") == question
    assert page.value("document.querySelector('#question').value") == question
    assert not page.value("document.querySelector('.empty').checkVisibility()")


def test_skills_of_the_server_are_offered(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam", KOCHI)
    offered = "[...document.querySelector('#recall select').options].map(option => option.text)"
    page.until(f"{offered}.length === 2")
    assert page.value(offered) == ["nomemory-recall-default", "tea"]
    page.value("document.querySelector('#recall select').value = 'tea'")
    recalled(page)
    assert "tea" in page.text("#recall .facts").split()
    page.click("#tab-compare")
    page.write("#compared", KOCHI)
    page.press("Enter")
    page.until("document.querySelector('.sum').textContent")
    titles = page.value("[...document.querySelectorAll('.column > h3')].map(title => title.textContent)")
    assert titles == ["nomemory-recall-default", "tea"]


def test_two_skills_are_compared(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    page.click("#tab-compare")
    page.write("#compared", KOCHI)
    page.press("Enter")
    page.until("document.querySelector('.sum').textContent")
    assert " messages in both results, 0 only in the first" in page.text(".sum")
    assert page.value("document.querySelectorAll('.column').length") == 2
    assert page.value("[...document.querySelectorAll('.moved')].every(node => node.textContent === '=')")
    page.click(".column .ranks .place")
    page.until("!document.querySelector('.card').hidden")
    assert page.complaints() == []


def test_server_status_is_shown(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser, "sam")
    page.click("#tab-state")
    page.until("document.querySelectorAll('.state-card').length === 4")
    shown = page.text(".cards")
    assert "No active faults." in shown
    assert "146 messages" in shown
    assert "All messages are searchable" in shown
    page.click("#whole")
    page.until("parseInt(document.querySelector('.state-card dd').textContent.replace(',', '')) >= 377")
    page.click(".state-card:last-child summary")
    limits = page.text(".state-card:last-child .technical")
    assert re.search(r"Size of a message\n[\d.]+ [KM]iB\n", limits), limits


@pytest.mark.parametrize("include_content", [True, False])
def test_recall_is_exported(sam: Page, tmp_path: Path, *, include_content: bool) -> None:
    sam.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    sam.until(HAS_ASKED)
    sam.value(f"document.querySelector('#include-content').checked = {str(include_content).lower()}")
    sam.value(
        """void (window.saved = new Promise(done => { const make = URL.createObjectURL; URL.createObjectURL =
        file => { URL.createObjectURL = make; done(file.text()); return make.call(URL, file); } }))"""
    )
    sam.click("#export")
    text = sam.value("window.saved")
    report = json.loads(text)
    assert (report["format"], report["server"]["version"]) == ("nomemory-recall", "0.2.0")
    assert report["result"]["evidence"]
    assert report["scores"][0]["explanation"]["components"]
    assert report["status"]["lexical"]["name"] == "lexical"
    assert ("Kochi" in text) is include_content
    assert (report["userId"] == "sam") is include_content
