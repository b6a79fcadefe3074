"""Tests for the metrics of memory views with small examples."""

from __future__ import annotations

import pytest

from evaluation.labeled_file import Question
from evaluation.labeled_set import make_off_topic_questions
from evaluation.view import (
    LabeledView,
    ViewCitations,
    compute_conflict_metrics,
    compute_view_metrics,
    is_recall_correct,
    read_view,
)
from nomemory.v1 import recall_service_pb2 as pb


def evaluated(
    *needed: set[str], old: set[str] | None = None, category: str = "single", verdict: str = "SUPPORTED"
) -> Question:
    evidence = frozenset[str]().union(*needed)
    return Question(
        "q", "ann", "?", category, evidence, None, tuple(map(frozenset, needed)), frozenset(old or ()), verdict, "en"
    )


def view(*statements: str, conflicts: tuple[tuple[str, str], ...] = ()) -> ViewCitations:
    return ViewCitations(
        tuple(frozenset(statement.split()) for statement in statements),
        tuple((frozenset(earlier.split()), frozenset(later.split())) for earlier, later in conflicts),
    )


def test_any_evidence_message_of_a_fact_counts_as_found() -> None:
    metrics = compute_view_metrics([LabeledView(evaluated({"a", "b"}, {"c"}), view("b", "x"))])
    assert metrics["view_recall"] == 0.5
    assert metrics["view_full"] == 0
    assert compute_view_metrics([LabeledView(evaluated({"a", "b"}, {"c"}), view("b c"))])["view_full"] == 1


def test_view_recall_averages_facts_and_view_full_averages_questions() -> None:
    judged = [LabeledView(evaluated({"a"}), view("a")), LabeledView(evaluated({"a"}, {"b"}, {"c"}), view())]
    metrics = compute_view_metrics(judged)
    assert metrics["view_recall"] == 0.25
    assert metrics["view_full"] == 0.5


def test_precision_counts_statements_and_old_values_are_relevant() -> None:
    judged = [LabeledView(evaluated({"a"}, old={"o"}), view("a", "o", "x")), LabeledView(evaluated({"a"}), view("x"))]
    assert compute_view_metrics(judged)["view_precision"] == 0.5


@pytest.mark.parametrize(
    ("statements", "right"), [(("a", "o"), 1), (("o", "a"), 0), (("x", "a"), 1), (("x",), 0), ((), 0), (("a o",), 0)]
)
def test_current_first_requires_the_current_value_first(statements: tuple[str, ...], right: int) -> None:
    question = evaluated({"a"}, old={"o"}, category="current")
    assert compute_view_metrics([LabeledView(question, view(*statements))])["current_first"] == right


def test_questions_without_an_old_value_do_not_count_for_current_first() -> None:
    assert "current_first" not in compute_view_metrics([LabeledView(evaluated({"a"}, category="current"), view("a"))])


def test_contradiction_is_found_if_a_pair_cites_both_sides() -> None:
    question = evaluated({"a"}, {"b"}, verdict="CONFLICTING")
    right, half = view("a", "b", conflicts=(("a", "b"),)), view("a", "b", conflicts=(("a", "x"),))
    assert compute_conflict_metrics([LabeledView(question, right), LabeledView(question, half)]) == {
        "contradictions": 2,
        "contradictions_found": 1,
    }


def test_unlabeled_contradiction_is_a_false_positive() -> None:
    judged = [
        LabeledView(evaluated({"a"}), view("a", conflicts=(("a", "x"),))),
        LabeledView(evaluated({"a"}), view("a")),
    ]
    assert compute_conflict_metrics(judged) == {"contradictions": 0, "contradictions_false": 0.5}


@pytest.mark.parametrize(
    ("question", "memory_view", "verdict", "right"),
    [
        (evaluated({"a"}, {"b"}), view("a", "x", "b"), "SUPPORTED", True),
        (evaluated({"a"}, {"b"}), view("a"), "SUPPORTED", False),
        (evaluated({"a"}), view("a"), "INSUFFICIENT", False),
        (evaluated({"a"}), view("a", "x", conflicts=(("a", "x"),)), "CONFLICTING", False),
        (evaluated({"a"}, old={"o"}, category="current"), view("a", "o"), "SUPPORTED", True),
        (evaluated({"a"}, old={"o"}, category="current"), view("o", "a"), "SUPPORTED", False),
        (evaluated({"a"}, old={"o"}, category="history"), view("o", "a"), "SUPPORTED", True),
        (evaluated(verdict="INSUFFICIENT"), view("x"), "INSUFFICIENT", True),
        (evaluated(verdict="INSUFFICIENT"), view("x"), "SUPPORTED", False),
        (evaluated({"a"}, {"b"}, verdict="CONFLICTING"), view(conflicts=(("a", "b"),)), "CONFLICTING", True),
        (evaluated({"a"}, {"b"}, verdict="CONFLICTING"), view("b", conflicts=(("a", "x"),)), "CONFLICTING", False),
        (evaluated({"a"}, {"b"}, verdict="CONFLICTING"), view("a", "b"), "SUPPORTED", False),
    ],
)
def test_recall_is_correct_only_if_every_criterion_is_met(
    question: Question, memory_view: ViewCitations, verdict: str, *, right: bool
) -> None:
    assert is_recall_correct(LabeledView(question, memory_view), verdict) is right


def test_view_statements_are_read_section_by_section() -> None:
    def statement(*ids: str) -> pb.Statement:
        return pb.Statement(citations=[pb.Citation(message_id=item) for item in ids])

    reply = pb.RecallResponse(
        memory_view=pb.MemoryView(
            constraints=[statement("c")], preferences=[statement("a", "b")], profile=[statement("p")]
        ),
        conflicts=[pb.Conflict(earlier=statement("a"), later=statement("p"))],
    )
    assert read_view(reply) == view("a b", "p", "c", conflicts=(("a", "p"),))


def test_off_topic_questions_are_asked_of_another_user_with_the_same_language() -> None:
    def of(user: str, language: str, verdict: str = "SUPPORTED") -> Question:
        return Question(
            "q", user, "?", "single", frozenset("a"), None, (frozenset("a"),), frozenset(), verdict, language
        )

    asked_of = make_off_topic_questions(
        [of("ann", "en"), of("bob", "en"), of("lin", "zh"), of("cat", "en", verdict="")]
    )
    assert [item.user_id for item in asked_of] == ["bob", "ann"]
    assert not any(item.is_answerable or item.needed_facts for item in asked_of)
