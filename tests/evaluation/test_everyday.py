"""Everyday questions, evaluated by the first two statements of the view and by the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.asking import MethodResult
from evaluation.everyday import EverydayResult, summarize_results
from evaluation.labeled_file import Question, read_messages, read_questions
from evaluation.view import ViewCitations

SAMPLE = Path(__file__).resolve().parents[2] / "sample"
ANSWERABLE = Question("q1", "u", "What?", "everyday", frozenset({"m1"}), None)
UNANSWERABLE = Question("q2", "u", "What else?", "unanswerable", frozenset(), None)


def everyday_result(question: Question, verdict: str, *quoted: str) -> EverydayResult:
    return EverydayResult(
        question, MethodResult((), verdict=verdict, view=ViewCitations(tuple(frozenset({item}) for item in quoted)))
    )


@pytest.mark.parametrize(
    ("quoted", "right"), [(("m1",), True), (("m2", "m1"), True), (("m2", "m3", "m1"), False), ((), False)]
)
def test_a_question_is_answered_if_two_lines_cite_its_evidence(quoted: tuple[str, ...], *, right: bool) -> None:
    assert everyday_result(ANSWERABLE, "SUPPORTED", *quoted).is_correct is right


@pytest.mark.parametrize(
    ("verdict", "right"), [("SUPPORTED", False), ("CONFLICTING", False), ("POSSIBLE", True), ("INSUFFICIENT", True)]
)
def test_asserting_an_answer_to_an_unanswerable_question_is_wrong(verdict: str, *, right: bool) -> None:
    assert everyday_result(UNANSWERABLE, verdict, "m2").is_correct is right


def test_the_summary_counts_both_kinds() -> None:
    some = [
        everyday_result(ANSWERABLE, "SUPPORTED", "m1"),
        everyday_result(ANSWERABLE, "POSSIBLE"),
        everyday_result(UNANSWERABLE, "SUPPORTED", "m2"),
    ]
    assert summarize_results(some) == "1 of 2 answered in the first two statements; 1 of 1 unanswerable ones asserted"


def test_sample_users_have_fifteen_questions_each_and_six_are_unanswerable() -> None:
    message_keys = frozenset(
        (message.message.user_id, message.message.message_id) for message in read_messages(SAMPLE / "messages.jsonl")
    )
    questions = read_questions(SAMPLE / "everyday.jsonl", message_keys)
    users = [question.user_id for question in questions]
    assert (users.count("sam"), users.count("lin")) == (15, 15)
    assert sum(not question.evidence for question in questions) == 6
