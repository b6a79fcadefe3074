"""Figures over many answers, as the JSON of the results has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any, Final

import numpy as np

from evaluation.asking import Answer
from evaluation.metrics import (
    Interval,
    auc,
    balanced_accuracy,
    mean_interval,
    precision,
    ranking_metrics,
    refusal_curve,
    session_metrics,
)
from evaluation.view import Judged, conflict_metrics, is_right, view_metrics
from nomemory.client.prompt_passages import tokens

Figures = dict[str, Any]
"""Metrics by name. `ci` has the 95 % intervals of those that have one, by the same names."""

_DIGITS: Final = 4

Found = dict[str, tuple[float, Interval | None]]
Value = Callable[[Answer], float | None]


def summarise(answers: Sequence[Answer], off_topic: Sequence[Answer] = ()) -> dict[str, Any]:
    """Sum up the answers of one method to one set: `{"all": figures, "categories": {…}, "languages": {…}}`.

    Unanswerable questions count for verdicts, contradictions and costs alone. A group of answerable questions is held
    against all unanswerable ones of the set, and the other way round. A figure that nothing can be said about is left
    out; `languages` is, where questions name none. An answer that waits for a model counts for `waiting` alone.

    Args:
        answers: what the method said.
        off_topic: what it said to questions about somebody else.
    """
    recorded = any(answer.found.prompts for answer in answers)
    asked, answers = answers, [answer for answer in answers if not answer.found.is_waiting]
    waiting = {"waiting": len(asked) - len(answers)} if recorded else {}
    everything = waiting | _figures(answers, answers)
    curve = _curve(answers)
    languages = _groups(answers, lambda item: item.question.language)
    return {
        "all": everything | _off_topic(off_topic) | ({"refusal_curve": curve} if curve else {}),
        "categories": _groups(answers, lambda item: item.question.category),
        **({"languages": languages} if languages else {}),
    }


def _groups(answers: Sequence[Answer], name: Callable[[Answer], str]) -> dict[str, Figures]:
    names = sorted({name(answer) for answer in answers} - {""})
    return {group: _figures([answer for answer in answers if name(answer) == group], answers) for group in names}


def _off_topic(answers: Sequence[Answer]) -> Figures:
    refused = [not answer.found.is_supported for answer in answers if answer.found.is_supported is not None]
    return {"off_topic_refused": round(fmean(refused), _DIGITS)} if refused else {}


def _curve(answers: Sequence[Answer]) -> list[tuple[float, float]]:
    answerable, unanswerable = _parted(answers, lambda item: item.found.sufficiency)
    return refusal_curve(answerable, unanswerable) if answerable and unanswerable else []


def _figures(answers: Sequence[Answer], everything: Sequence[Answer]) -> Figures:
    answerable = [answer for answer in answers if answer.question.is_answerable]
    figures: Figures = {
        "questions": len(answers),
        "answerable": len(answerable),
        "cut_questions": sum(answer.found.is_cut for answer in answers),
    }
    intervals: dict[str, Interval] = {}
    _add(figures, intervals, _evidence(answerable))
    _add(figures, intervals, _verdicts(answers, everything))
    _add(figures, intervals, _views(answers))
    _add(figures, intervals, _costs(answers))
    _add(figures, intervals, _asked_of_model(answers))
    figures["ci"] = {name: [round(bound, _DIGITS) for bound in bounds] for name, bounds in intervals.items()}
    return figures


def _add(figures: Figures, intervals: dict[str, Interval], found: Found) -> None:
    for name, (value, bounds) in found.items():
        figures[name] = round(value, _DIGITS)
        if bounds is not None:
            intervals[name] = bounds


def _evidence(answers: Sequence[Answer]) -> Found:
    judged = [_judged(answer) for answer in answers]
    names = dict.fromkeys(name for item in judged for name in item)
    return {name: _mean([item[name] for item in judged if name in item]) for name in names}


def _judged(answer: Answer) -> dict[str, float]:
    ranked, evidence = answer.found.message_ids, answer.question.evidence
    judged = ranking_metrics(ranked, evidence) | session_metrics(ranked, evidence, answer.question.conversations)
    if answer.found.is_supported is not None:  # it chose its evidence; a ranking is as long as one asks for
        judged["evidence_recall"] = len(evidence.intersection(ranked)) / len(evidence)
        judged["precision"] = precision(ranked, evidence)
        judged["evidence_messages"] = float(len(ranked))
    return judged


def _verdicts(answers: Sequence[Answer], everything: Sequence[Answer]) -> Found:
    found: Found = {}
    scores = _sides(answers, everything, lambda item: item.found.sufficiency)
    if all(scores):
        found["sufficiency_auc"] = auc(*scores)
    right = _sides(answers, everything, _verdict_is_right)
    if all(right):
        found["balanced_accuracy"] = balanced_accuracy(*right)
    for name, values in zip(("answered", "refused"), _parted(answers, _verdict_is_right), strict=True):
        if values:
            found[name] = _mean(values)
    return found


def _views(answers: Sequence[Answer]) -> Found:
    labelled = [(answer, answer.found.view) for answer in answers if answer.question.verdict]
    verdicts = [(Judged(item.question, view), item.found.verdict) for item, view in labelled if view]
    if not verdicts:
        return {}
    judged = [item for item, _ in verdicts]
    answerable = [verdict for verdict in verdicts if verdict[0].question.is_answerable]
    right = {
        name: _mean([float(is_right(*item)) for item in of])
        for name, of in (("right", verdicts), ("right_answerable", answerable))
        if of
    }
    metrics = view_metrics([item for item in judged if item.question.is_answerable and item.question.needed])
    return right | {name: (value, None) for name, value in (metrics | conflict_metrics(judged)).items()}


def _costs(answers: Sequence[Answer]) -> Found:
    if not answers:
        return {}
    costs = [answer.cpu_ms for answer in answers if answer.cpu_ms is not None]
    cpu: Found = {"cpu_p50_ms": (median(costs), None)} if costs else {}
    return {"latency_p50_ms": (median(answer.latency_ms for answer in answers), None)} | cpu


def _asked_of_model(answers: Sequence[Answer]) -> Found:
    """Sum up the prompts of which a record was kept: how many a question took, and how long one is."""
    prompts = [prompt for answer in answers for prompt in answer.found.prompts]
    if not prompts:
        return {}
    lengths = {"prompt_tokens": [tokens(item) for item in prompts], "prompt_chars": [len(item) for item in prompts]}
    by_rules = sum(answer.found.is_by_rules for answer in answers)
    found: Found = {"calls": (len(prompts) / len(answers), None), "by_rules": (by_rules, None)}
    for name, values in lengths.items():
        found |= {f"{name}_p{rank}": (float(np.percentile(values, rank)), None) for rank in (50, 95)}
    return found


def _verdict_is_right(answer: Answer) -> float | None:
    verdict = answer.found.is_supported
    return None if verdict is None else float(verdict is answer.question.is_answerable)


def _mean(values: Sequence[float]) -> tuple[float, Interval]:
    return fmean(values), mean_interval(values)


def _sides(answers: Sequence[Answer], everything: Sequence[Answer], value: Value) -> tuple[list[float], list[float]]:
    """Return the values of answerable and unanswerable questions; a side that is missing is that of the whole set."""
    (ours, theirs), (all_ours, all_theirs) = _parted(answers, value), _parted(everything, value)
    return ours or all_ours, theirs or all_theirs


def _parted(answers: Sequence[Answer], value: Value) -> tuple[list[float], list[float]]:
    """Return the values of answerable and of unanswerable questions, so far as they have one."""
    sides: tuple[list[float], list[float]] = ([], [])
    for answer in answers:
        if (known := value(answer)) is not None:
            sides[not answer.question.is_answerable].append(known)
    return sides
