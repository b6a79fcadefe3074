"""Supported, conflicting or insufficient: what the sample's labelled evidence says."""

from __future__ import annotations

import pytest
from recall.synthesis.independent_check import check
from recall.synthesis.labelled import Labelled, answer, nearest, questions, said_before

from nomemory.recall.grounding.conclusion import conclude
from nomemory.recall.model.evidence import Retrieval
from nomemory.recall.model.memory_view import MemoryView, Verdict
from nomemory.recall.synthesis.extractive import MOST

ANSWERABLE = [one for one in questions() if one.evidence]
UNANSWERABLE = [one for one in questions() if not one.evidence]
UNDISPUTED = {"format", "constraint", "project"}


def name(one: Labelled) -> str:
    return one.question_id


@pytest.mark.parametrize("one", ANSWERABLE, ids=name)
def test_the_labelled_evidence_answers_the_question(one: Labelled) -> None:
    verdict = answer(one, one.evidence).synthesis.verdict
    assert verdict is not Verdict.INSUFFICIENT
    if one.category in UNDISPUTED:
        assert verdict is Verdict.SUPPORTED


@pytest.mark.parametrize("one", UNANSWERABLE, ids=name)
def test_what_comes_nearest_to_a_question_does_not_answer_it(one: Labelled) -> None:
    synthesis = answer(one, nearest(one)).synthesis
    assert synthesis.verdict is Verdict.INSUFFICIENT
    assert synthesis.view == MemoryView()
    assert synthesis.conflicts == ()
    assert synthesis.notes


@pytest.mark.parametrize("one", questions(), ids=name)
def test_every_citation_stands_an_independent_check(one: Labelled) -> None:
    for ids in (one.evidence, nearest(one)):
        answered = answer(one, ids)
        stored = {message.message_id: message for message in said_before(one)}
        retrieved = {message.message_id for message in answered.retrieval}
        assert check(answered.synthesis, stored, retrieved) == []
        assert len(answered.synthesis.view.statements()) <= MOST


@pytest.mark.parametrize("one", questions(), ids=name)
def test_the_same_evidence_gives_the_same_answer(one: Labelled) -> None:
    assert answer(one, one.evidence).synthesis == answer(one, one.evidence).synthesis


def test_without_evidence_it_says_so() -> None:
    synthesis = conclude(questions()[0].question, [], Retrieval(), [])
    assert synthesis.verdict is Verdict.INSUFFICIENT
    assert synthesis.notes == ("nothing was found",)


@pytest.mark.parametrize("one", ANSWERABLE, ids=name)
def test_the_reason_holds_no_content(one: Labelled) -> None:
    (reason,) = answer(one, one.evidence).synthesis.notes
    assert reason.isascii()


def test_a_contradiction_about_something_else_does_not_make_the_answer_conflicting() -> None:
    one = next(one for one in questions() if one.question_id == "sam-q17")
    synthesis = answer(one, [*one.evidence, "sam-0002", "sam-0095"]).synthesis
    assert synthesis.verdict is Verdict.SUPPORTED
    assert synthesis.conflicts == ()
