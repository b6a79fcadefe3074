"""Tests for the leave-one-user-out evaluation of thresholds."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.asking import Answer, MethodResult
from evaluation.labeled_file import Question
from evaluation.variants import QUOTE_SETTING, QUOTE_THRESHOLDS, RecallAnswers, evaluate_leave_one_out
from evaluation.view import ViewCitations


def answer(user: str, cited: str, sufficiency: float, needed: str = "a") -> Answer:
    proof = frozenset(needed)
    question = Question("q", user, "?", "single", proof, None, (proof,) if needed else (), verdict="SUPPORTED")
    view = ViewCitations(tuple(frozenset(item) for item in cited))
    return Answer(question, MethodResult((), sufficiency, verdict="SUPPORTED", view=view), 1.0, None)


def recall_with_threshold(settings: Mapping[str, str]) -> RecallAnswers:
    """Return scripted results: the view of ann is correct at the first threshold, others at the other thresholds."""
    widest = settings[QUOTE_SETTING] == str(QUOTE_THRESHOLDS[0])
    answers = [answer("ann", "a" if widest else "x", 0.5)]
    answers += [answer(user, "axx" if widest else "a", 0.9) for user in ("bob", "cat")]
    return RecallAnswers(answers, [answer(user, "x", 0.7, needed="") for user in ("ann", "bob", "cat")])


def test_threshold_for_a_user_excludes_their_questions() -> None:
    figures = evaluate_leave_one_out(recall_with_threshold)
    assert figures["people"] == 3
    assert figures["cuts"]["ann"] != QUOTE_THRESHOLDS[0]
    assert figures["view_full"] < 1


def test_each_user_is_evaluated_with_the_threshold_of_the_others() -> None:
    figures = evaluate_leave_one_out(recall_with_threshold)
    assert figures["answered"] == round(2 / 3, 4)
    assert figures["off_topic_refused"] == round(1 / 3, 4)
