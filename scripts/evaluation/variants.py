"""The same questions asked of servers with other settings.

Without each step of the hybrid ranking: what is it worth? And at operating points that were chosen on other people:
nobody's questions are judged at points that they helped to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from evaluation.asking import HYBRID, Answer
from evaluation.view import Judged, view_metrics
from nomemory.server.search.hybrid.weights import STEPS

QUOTED: Final = "NOMEMORY_RECALL_QUOTE_THRESHOLD"
QUOTED_AT: Final = (0.08, 0.1, 0.11, 0.125, 0.15, 0.175)
"""The cuts that are tried: from what probability on a message is quoted."""
_ANSWERED: Final = 0.92
"""Share of the others' answerable questions that a verdict's threshold must leave answered."""
_DIGITS: Final = 4

SETTING: Final = "NOMEMORY_HYBRID_DISABLED_FEATURES"
WHOLE: Final = "everything"
_ABLATED: Final = ("recall@6", "recall@10", "hit@1", "hit@6")

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Figures by set, method, and category or `all`."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a recall said: to the labelled questions of a set, and to those about somebody else."""

    answers: Sequence[Answer]
    off_topic: Sequence[Answer]


Recalled = Callable[[Mapping[str, str]], Asked]
"""Ask everything of a server with these settings."""
Measured = Callable[[Mapping[str, str]], Results]
"""Measure with further settings of the server."""


def leave_one_out(recalled: Recalled) -> dict[str, Any]:
    """Return the figures of left-out people: the cut and the verdict's threshold are the others' choice.

    The cut has the greatest harmonic mean of view_recall and view_precision on the others. The threshold is the
    greatest that leaves 92 % of their answerable questions answered.
    """
    by_cut = {cut: recalled({QUOTED: str(cut)}) for cut in QUOTED_AT}
    people = sorted({answer.question.user_id for answer in by_cut[QUOTED_AT[0]].answers if answer.question.verdict})
    cuts = {person: _best_cut(by_cut, person) for person in people}
    judged = [item for person in people for item in _judged(by_cut[cuts[person]].answers, person.__eq__)]
    figures = {name: round(value, _DIGITS) for name, value in view_metrics(judged).items()}
    return {"people": len(people), "cuts": cuts, **figures, **_verdicts(by_cut[QUOTED_AT[0]], people)}


def _best_cut(by_cut: Mapping[float, Asked], person: str) -> float:
    def worth(cut: float) -> float:
        metrics = view_metrics(_judged(by_cut[cut].answers, lambda user: user != person))
        recall, precision = metrics.get("view_recall", 0.0), metrics.get("view_precision", 0.0)
        return 2 * recall * precision / (recall + precision) if recall + precision else 0.0

    return max(by_cut, key=worth)


def _judged(answers: Sequence[Answer], belongs: Callable[[str], bool]) -> list[Judged]:
    return [
        Judged(answer.question, answer.found.view)
        for answer in answers
        if answer.found.view
        and answer.question.is_answerable
        and answer.question.needed
        and belongs(answer.question.user_id)
    ]


def _verdicts(asked: Asked, people: Sequence[str]) -> dict[str, float]:
    answered = [item for person in people for item in _passed(asked.answers, asked.answers, person, answerable=True)]
    refused = [
        not item for person in people for item in _passed(asked.off_topic, asked.answers, person, answerable=False)
    ]
    shares = {"answered": answered, "off_topic_refused": refused}
    return {name: round(sum(values) / len(values), _DIGITS) for name, values in shares.items() if values}


def _passed(answers: Sequence[Answer], known: Sequence[Answer], person: str, *, answerable: bool) -> Iterator[bool]:
    """Return whether each of a person's questions reaches the threshold that the others chose."""
    others = sorted(_scores(known, lambda user: user != person, answerable=True))
    least = others[int(len(others) * (1 - _ANSWERED))] if others else 0.0
    yield from (score >= least for score in _scores(answers, lambda user: user == person, answerable=answerable))


def _scores(answers: Sequence[Answer], belongs: Callable[[str], bool], *, answerable: bool) -> list[float]:
    return [
        answer.found.sufficiency
        for answer in answers
        if answer.found.sufficiency is not None
        and answer.question.is_answerable is answerable
        and belongs(answer.question.user_id)
    ]


def ablation(measured: Measured) -> dict[str, dict[str, Mapping[str, float]]]:
    """Measure HybridSearch as it is, then without each of its steps; returns figures by set and step left out."""
    by_step = {WHOLE: measured({SETTING: ""})} | {step: measured({SETTING: step}) for step in STEPS}
    return {name: {step: results[name][HYBRID]["all"] for step, results in by_step.items()} for name in by_step[WHOLE]}


def ablation_tables(by_set: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[Text | Table]:
    """Lay it out: a table for each set, the difference that a step makes in brackets."""
    for name, by_step in by_set.items():
        table = Table("left out", *_ABLATED, box=None)
        for step, figures in by_step.items():
            table.add_row(step if step != WHOLE else "nothing", *_cells(figures, by_step[WHOLE]))
        yield Text(f"\n{name}: HybridSearch without a step", style="bold")
        yield table


def _cells(figures: Mapping[str, float], whole: Mapping[str, float]) -> Iterator[str]:
    for metric in _ABLATED:
        yield f"{figures[metric]:.3f} ({figures[metric] - whole[metric]:+.3f})"
