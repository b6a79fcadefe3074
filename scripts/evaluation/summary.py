"""Aggregated metrics of answers, in the structure of the JSON output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any, Final

import numpy as np

from evaluation.asking import Answer
from evaluation.metrics import (
    Interval,
    compute_auc,
    compute_balanced_accuracy,
    compute_mean_interval,
    compute_precision,
    compute_ranking_metrics,
    compute_refusal_curve,
    compute_session_metrics,
)
from evaluation.view import LabeledView, compute_conflict_metrics, compute_view_metrics, is_recall_correct
from nomemory.client.prompt_passages import count_tokens

Figures = dict[str, Any]
"""Metrics by name; `ci` maps metric names to 95 % confidence intervals."""

_DIGITS: Final = 4

Metrics = dict[str, tuple[float, Interval | None]]
Value = Callable[[Answer], float | None]


def summarize_answers(answers: Sequence[Answer], off_topic: Sequence[Answer] = ()) -> dict[str, Any]:
    """Return the metrics of one method on one set: `{"all": figures, "categories": {…}, "languages": {…}}`.

    Unanswerable questions count only for verdicts, contradictions and costs. For verdict metrics, a group that has only
    answerable questions is compared with all unanswerable questions of the set, and vice versa. Undefined metrics are
    omitted, as is `languages` if no question has a language. `waiting` is the number of answers that lack a recorded
    model answer; these are excluded from all other figures. `off_topic` contains the answers to the questions of
    `make_off_topic_questions`.
    """
    recorded = any(answer.result.prompts for answer in answers)
    all_answers, answers = answers, [answer for answer in answers if not answer.result.lacks_model_answer]
    waiting = {"waiting": len(all_answers) - len(answers)} if recorded else {}
    everything = waiting | _compute_figures(answers, answers)
    curve = _compute_refusal_curve(answers)
    languages = _compute_group_figures(answers, lambda item: item.question.language)
    return {
        "all": everything | _compute_off_topic_figures(off_topic) | ({"refusal_curve": curve} if curve else {}),
        "categories": _compute_group_figures(answers, lambda item: item.question.category),
        **({"languages": languages} if languages else {}),
    }


def _compute_group_figures(answers: Sequence[Answer], name: Callable[[Answer], str]) -> dict[str, Figures]:
    names = sorted({name(answer) for answer in answers} - {""})
    return {
        group: _compute_figures([answer for answer in answers if name(answer) == group], answers) for group in names
    }


def _compute_off_topic_figures(answers: Sequence[Answer]) -> Figures:
    refused = [not answer.result.is_supported for answer in answers if answer.result.is_supported is not None]
    return {"off_topic_refused": round(fmean(refused), _DIGITS)} if refused else {}


def _compute_refusal_curve(answers: Sequence[Answer]) -> list[tuple[float, float]]:
    answerable, unanswerable = _partition_by_answerability(answers, lambda item: item.result.sufficiency)
    return compute_refusal_curve(answerable, unanswerable) if answerable and unanswerable else []


def _compute_figures(answers: Sequence[Answer], everything: Sequence[Answer]) -> Figures:
    answerable = [answer for answer in answers if answer.question.is_answerable]
    figures: Figures = {
        "questions": len(answers),
        "answerable": len(answerable),
        "cut_questions": sum(answer.result.is_truncated for answer in answers),
    }
    intervals: dict[str, Interval] = {}
    _add_metrics(figures, intervals, _compute_evidence_metrics(answerable))
    _add_metrics(figures, intervals, _compute_verdict_metrics(answers, everything))
    _add_metrics(figures, intervals, _compute_view_metrics(answers))
    _add_metrics(figures, intervals, _compute_cost_metrics(answers))
    _add_metrics(figures, intervals, _compute_prompt_metrics(answers))
    figures["ci"] = {name: [round(bound, _DIGITS) for bound in bounds] for name, bounds in intervals.items()}
    return figures


def _add_metrics(figures: Figures, intervals: dict[str, Interval], metrics: Metrics) -> None:
    for name, (value, bounds) in metrics.items():
        figures[name] = round(value, _DIGITS)
        if bounds is not None:
            intervals[name] = bounds


def _compute_evidence_metrics(answers: Sequence[Answer]) -> Metrics:
    by_answer = [_compute_answer_metrics(answer) for answer in answers]
    names = dict.fromkeys(name for metrics in by_answer for name in metrics)
    return {
        name: _compute_mean_with_interval([metrics[name] for metrics in by_answer if name in metrics]) for name in names
    }


def _compute_answer_metrics(answer: Answer) -> dict[str, float]:
    ranked, evidence = answer.result.message_ids, answer.question.evidence
    metrics = compute_ranking_metrics(ranked, evidence) | compute_session_metrics(
        ranked, evidence, answer.question.conversations
    )
    if answer.result.is_supported is not None:  # a recall selects its evidence; searches return `DEPTH` messages
        metrics["evidence_recall"] = len(evidence.intersection(ranked)) / len(evidence)
        metrics["precision"] = compute_precision(ranked, evidence)
        metrics["evidence_messages"] = float(len(ranked))
    return metrics


def _compute_verdict_metrics(answers: Sequence[Answer], everything: Sequence[Answer]) -> Metrics:
    metrics: Metrics = {}
    scores = _partition_with_fallback_to_whole_set(answers, everything, lambda item: item.result.sufficiency)
    if all(scores):
        metrics["sufficiency_auc"] = compute_auc(*scores)
    right = _partition_with_fallback_to_whole_set(answers, everything, _evaluate_verdict)
    if all(right):
        metrics["balanced_accuracy"] = compute_balanced_accuracy(*right)
    for name, values in zip(
        ("answered", "refused"), _partition_by_answerability(answers, _evaluate_verdict), strict=True
    ):
        if values:
            metrics[name] = _compute_mean_with_interval(values)
    return metrics


def _compute_view_metrics(answers: Sequence[Answer]) -> Metrics:
    labeled = [(answer, answer.result.view) for answer in answers if answer.question.verdict]
    verdicts = [(LabeledView(item.question, view), item.result.verdict) for item, view in labeled if view]
    if not verdicts:
        return {}
    judged = [item for item, _ in verdicts]
    answerable = [verdict for verdict in verdicts if verdict[0].question.is_answerable]
    right = {
        name: _compute_mean_with_interval([float(is_recall_correct(*item)) for item in group])
        for name, group in (("right", verdicts), ("right_answerable", answerable))
        if group
    }
    metrics = compute_view_metrics(
        [item for item in judged if item.question.is_answerable and item.question.needed_facts]
    )
    return right | {name: (value, None) for name, value in (metrics | compute_conflict_metrics(judged)).items()}


def _compute_cost_metrics(answers: Sequence[Answer]) -> Metrics:
    if not answers:
        return {}
    costs = [answer.cpu_ms for answer in answers if answer.cpu_ms is not None]
    cpu: Metrics = {"cpu_p50_ms": (median(costs), None)} if costs else {}
    return {"latency_p50_ms": (median(answer.latency_ms for answer in answers), None)} | cpu


def _compute_prompt_metrics(answers: Sequence[Answer]) -> Metrics:
    """Return the number and lengths of the recorded prompts, and the number of questions answered by rules."""
    prompts = [prompt for answer in answers for prompt in answer.result.prompts]
    if not prompts:
        return {}
    lengths = {
        "prompt_tokens": [count_tokens(item) for item in prompts],
        "prompt_chars": [len(item) for item in prompts],
    }
    by_rules = sum(answer.result.used_rules for answer in answers)
    metrics: Metrics = {"calls": (len(prompts) / len(answers), None), "by_rules": (by_rules, None)}
    for name, values in lengths.items():
        metrics |= {f"{name}_p{rank}": (float(np.percentile(values, rank)), None) for rank in (50, 95)}
    return metrics


def _evaluate_verdict(answer: Answer) -> float | None:
    verdict = answer.result.is_supported
    return None if verdict is None else float(verdict is answer.question.is_answerable)


def _compute_mean_with_interval(values: Sequence[float]) -> tuple[float, Interval]:
    return fmean(values), compute_mean_interval(values)


def _partition_with_fallback_to_whole_set(
    answers: Sequence[Answer], everything: Sequence[Answer], value: Value
) -> tuple[list[float], list[float]]:
    """Return the values of answerable and of unanswerable questions; an empty group is taken from the whole set."""
    (positive, negative), (all_positive, all_negative) = (
        _partition_by_answerability(answers, value),
        _partition_by_answerability(everything, value),
    )
    return positive or all_positive, negative or all_negative


def _partition_by_answerability(answers: Sequence[Answer], value: Value) -> tuple[list[float], list[float]]:
    """Return the values of answerable and of unanswerable questions, without None."""
    sides: tuple[list[float], list[float]] = ([], [])
    for answer in answers:
        if (number := value(answer)) is not None:
            sides[not answer.question.is_answerable].append(number)
    return sides
