"""Measurements with changed server settings: ablation of ranking features, and leave-one-out thresholds.

The ablation measures HybridSearch without each ranking feature. The leave-one-out evaluation measures each user at
thresholds that were chosen on the other users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from evaluation.asking import HYBRID, Answer
from evaluation.view import LabeledView, compute_view_metrics
from nomemory.server.search.hybrid.weights import STEPS

QUOTE_SETTING: Final = "NOMEMORY_RECALL_QUOTE_THRESHOLD"
QUOTE_THRESHOLDS: Final = (0.08, 0.11, 0.14, 0.16, 0.18, 0.2)
"""Candidate thresholds: minimum probability of a quoted message."""
_MIN_ANSWERED: Final = 0.92
"""Minimum share of the answerable questions of the other users that must reach the verdict threshold."""
_DIGITS: Final = 4

DISABLED_FEATURES: Final = "NOMEMORY_HYBRID_DISABLED_FEATURES"
BASELINE: Final = "everything"
_ABLATED: Final = ("recall@6", "recall@10", "hit@1", "hit@6")

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Figures by set, by method, and by category or `all`."""


@dataclass(frozen=True, slots=True)
class RecallAnswers:
    """Recall answers to the labeled questions, and to the same questions assigned to other users."""

    answers: Sequence[Answer]
    off_topic: Sequence[Answer]


RunRecalls = Callable[[Mapping[str, str]], RecallAnswers]
"""Function that runs all recalls on a server with additional settings."""
Measure = Callable[[Mapping[str, str]], Results]
"""Function that measures a server with additional settings."""


def evaluate_leave_one_out(run_recalls: RunRecalls) -> dict[str, Any]:
    """Return the figures of each user at thresholds that were chosen on the other users.

    The quote threshold maximizes the harmonic mean of view_recall and view_precision. The verdict threshold is the
    highest threshold at which 92 % of the answerable questions are answered.
    """
    recalls_by_threshold = {cut: run_recalls({QUOTE_SETTING: str(cut)}) for cut in QUOTE_THRESHOLDS}
    people = sorted(
        {
            answer.question.user_id
            for answer in recalls_by_threshold[QUOTE_THRESHOLDS[0]].answers
            if answer.question.verdict
        }
    )
    cuts = {person: _choose_threshold(recalls_by_threshold, person) for person in people}
    labeled_views = [
        item for person in people for item in _label_views(recalls_by_threshold[cuts[person]].answers, person.__eq__)
    ]
    figures = {name: round(value, _DIGITS) for name, value in compute_view_metrics(labeled_views).items()}
    return {
        "people": len(people),
        "cuts": cuts,
        **figures,
        **_evaluate_verdicts(recalls_by_threshold[QUOTE_THRESHOLDS[0]], people),
    }


def _choose_threshold(recalls_by_threshold: Mapping[float, RecallAnswers], person: str) -> float:
    def compute_f1_score(cut: float) -> float:
        metrics = compute_view_metrics(_label_views(recalls_by_threshold[cut].answers, lambda user: user != person))
        recall, precision = metrics.get("view_recall", 0.0), metrics.get("view_precision", 0.0)
        return 2 * recall * precision / (recall + precision) if recall + precision else 0.0

    return max(recalls_by_threshold, key=compute_f1_score)


def _label_views(answers: Sequence[Answer], belongs: Callable[[str], bool]) -> list[LabeledView]:
    return [
        LabeledView(answer.question, answer.result.view)
        for answer in answers
        if answer.result.view
        and answer.question.is_answerable
        and answer.question.needed_facts
        and belongs(answer.question.user_id)
    ]


def _evaluate_verdicts(recalls: RecallAnswers, people: Sequence[str]) -> dict[str, float]:
    answered = [
        item
        for person in people
        for item in _check_verdict_threshold(recalls.answers, recalls.answers, person, answerable=True)
    ]
    refused = [
        not item
        for person in people
        for item in _check_verdict_threshold(recalls.off_topic, recalls.answers, person, answerable=False)
    ]
    shares = {"answered": answered, "off_topic_refused": refused}
    return {name: round(sum(values) / len(values), _DIGITS) for name, values in shares.items() if values}


def _check_verdict_threshold(
    answers: Sequence[Answer], labeled: Sequence[Answer], person: str, *, answerable: bool
) -> Iterator[bool]:
    """Yield, for each question of a user, whether it reaches the verdict threshold chosen on the other users."""
    others = sorted(_select_scores(labeled, lambda user: user != person, answerable=True))
    threshold = others[int(len(others) * (1 - _MIN_ANSWERED))] if others else 0.0
    yield from (
        score >= threshold for score in _select_scores(answers, lambda user: user == person, answerable=answerable)
    )


def _select_scores(answers: Sequence[Answer], belongs: Callable[[str], bool], *, answerable: bool) -> list[float]:
    return [
        answer.result.sufficiency
        for answer in answers
        if answer.result.sufficiency is not None
        and answer.question.is_answerable is answerable
        and belongs(answer.question.user_id)
    ]


def measure_ablation(measure: Measure) -> dict[str, dict[str, Mapping[str, float]]]:
    """Measure HybridSearch with all features and without each feature; return figures by set and disabled feature."""
    by_step = {BASELINE: measure({DISABLED_FEATURES: ""})}
    by_step |= {step: measure({DISABLED_FEATURES: step}) for step in STEPS}
    return {
        name: {step: results[name][HYBRID]["all"] for step, results in by_step.items()} for name in by_step[BASELINE]
    }


def build_ablation_tables(by_set: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[Text | Table]:
    """Yield a title and a table for each set, with the difference from the baseline in parentheses."""
    for name, by_step in by_set.items():
        table = Table("disabled feature", *_ABLATED, box=None)
        for step, figures in by_step.items():
            table.add_row(step if step != BASELINE else "none", *_format_cells(figures, by_step[BASELINE]))
        yield Text(f"\n{name}: HybridSearch ablation", style="bold")
        yield table


def _format_cells(figures: Mapping[str, float], baseline: Mapping[str, float]) -> Iterator[str]:
    for metric in _ABLATED:
        yield f"{figures[metric]:.3f} ({figures[metric] - baseline[metric]:+.3f})"
