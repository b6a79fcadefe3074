"""Tests for the summary of evaluation results and the questions that each metric includes."""

from __future__ import annotations

import pytest

from evaluation.asking import Answer, MethodResult
from evaluation.labeled_file import Question
from evaluation.summary import summarize_answers

RANKING = {"hit@1", "hit@6", "recall@6", "recall@10", "recall@20", "recall@50", "full@6", "mrr", "ndcg@10"}
CHOICE = {"precision", "evidence_recall", "evidence_messages"}
COUNTS = {"questions", "answerable", "cut_questions", "latency_p50_ms", "cpu_p50_ms"}
VERDICTS = {"sufficiency_auc", "balanced_accuracy"}


def answer(
    category: str, evidence: set[str], result: MethodResult, ms: float = 1.0, cpu_ms: float | None = 1.0
) -> Answer:
    return Answer(Question("q", "u", "?", category, frozenset(evidence), None), result, ms, cpu_ms)


RECALLED = [
    answer("easy", {"a"}, MethodResult(("a", "b"), 0.9, verdict="SUPPORTED"), 1, 10),
    answer("easy", {"a", "c"}, MethodResult(("b", "a"), 0.2, verdict="INSUFFICIENT", is_truncated=True), 2, 20),
    answer("hard", {"a"}, MethodResult((), 0.5, verdict="SUPPORTED"), 3, 30),
    answer("adversarial", set(), MethodResult(("a",), 0.4, verdict="SUPPORTED"), 4, 40),
    answer("adversarial", {"a"}, MethodResult(("a",), 0.1, verdict="INSUFFICIENT"), 5, 50),
]


def test_every_category_and_the_total_have_metrics_with_intervals() -> None:
    result = summarize_answers(RECALLED)
    assert set(result) == {"all", "categories"}
    assert set(result["categories"]) == {"easy", "hard", "adversarial"}
    everything = result["all"]
    sides = {"answered", "refused"}
    assert set(everything) == RANKING | CHOICE | COUNTS | VERDICTS | sides | {"ci", "refusal_curve"}
    assert set(everything["ci"]) == RANKING | CHOICE | VERDICTS | sides
    for name, (low, high) in everything["ci"].items():
        assert low <= everything[name] <= high


def test_unanswerable_questions_count_only_for_verdicts_and_costs() -> None:
    result = summarize_answers(RECALLED)
    everything, adversarial = result["all"], result["categories"]["adversarial"]
    assert (everything["questions"], everything["answerable"], everything["cut_questions"]) == (5, 3, 1)
    assert everything["recall@6"] == pytest.approx((1 + 0.5 + 0) / 3, abs=1e-4)
    assert everything["hit@1"] == pytest.approx(1 / 3, abs=1e-4)
    assert everything["precision"] == pytest.approx((0.5 + 0.5 + 0) / 3, abs=1e-4)
    assert everything["evidence_messages"] == pytest.approx(4 / 3, abs=1e-4)
    assert (everything["latency_p50_ms"], everything["cpu_p50_ms"]) == (3, 30)
    assert not RANKING & set(adversarial)
    assert adversarial["latency_p50_ms"] == 4.5


def test_verdict_metrics_use_the_opposite_class_of_the_whole_set() -> None:
    result = summarize_answers(RECALLED)
    easy, adversarial = result["categories"]["easy"], result["categories"]["adversarial"]
    assert result["all"]["sufficiency_auc"] == pytest.approx(5 / 6, abs=1e-4)
    assert easy["sufficiency_auc"] == 0.75
    assert adversarial["sufficiency_auc"] == result["all"]["sufficiency_auc"]
    assert (easy["answered"], easy["balanced_accuracy"]) == (0.5, 0.5)
    assert "refused" not in easy
    assert adversarial["refused"] == 0.5


def test_undefined_metrics_are_omitted() -> None:
    plain = summarize_answers([answer("easy", {"a"}, MethodResult(("a",)), cpu_ms=None)])["all"]
    assert set(plain) == RANKING | COUNTS - {"cpu_p50_ms"} | {"ci"}
    one_sided = summarize_answers([answer("easy", {"a"}, MethodResult(("a",), 0.5, verdict="SUPPORTED"))])["all"]
    assert "sufficiency_auc" not in one_sided
    assert one_sided["answered"] == 1


def test_languages_and_questions_about_other_people_have_metrics() -> None:
    english, chinese = (
        Answer(
            Question("q", "u", "?", "easy", frozenset("a"), None, language=language),
            MethodResult(("a",), 0.5),
            1.0,
            None,
        )
        for language in ("en", "zh")
    )
    verdicts = ("SUPPORTED", "INSUFFICIENT", "INSUFFICIENT", "INSUFFICIENT")
    refused = [answer("easy", set(), MethodResult((), verdict=verdict)) for verdict in verdicts]
    result = summarize_answers([english, chinese], refused)
    assert set(result["languages"]) == {"en", "zh"}
    assert result["all"]["off_topic_refused"] == 0.75


def test_refusal_curve_starts_with_all_questions_answered() -> None:
    curve = summarize_answers(RECALLED)["all"]["refusal_curve"]
    assert curve[0] == (1.0, 0.5)
    assert [answered for answered, _ in curve] == sorted((answered for answered, _ in curve), reverse=True)


def test_unanswered_prompts_count_only_as_pending() -> None:
    result = MethodResult(("a",), verdict="SUPPORTED", prompts=("中文", "x" * 300))
    answers = [
        answer("easy", {"a"}, result),
        answer("hard", {"a"}, MethodResult((), prompts=("x",), lacks_model_answer=True)),
    ]
    everything = summarize_answers(answers)["all"]
    assert (everything["waiting"], everything["questions"], everything["hit@1"]) == (1, 1, 1)
    assert (everything["calls"], everything["prompt_tokens_p50"], everything["prompt_chars_p50"]) == (2, 51, 151)
    assert summarize_answers(answers[1:])["all"]["waiting"] == 1


def test_conversation_questions_have_metrics_by_conversation() -> None:
    question = Question("q", "u", "?", "easy", frozenset("a"), None, conversations={"a": "1", "b": "2"})
    everything = summarize_answers([Answer(question, MethodResult(("b", "a")), 1.0, None)])["all"]
    assert everything["session_recall@5"] == 1
