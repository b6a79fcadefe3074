"""Whether a method knows what it does not know: answerable against unanswerable questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nomemory.evaluation.bootstrap import Interval, Numbers, interval, weights

_DIGITS: Final = 4


def auc(answerable: Sequence[float], unanswerable: Sequence[float]) -> tuple[float, Interval]:
    """Return the area under the curve of a score, and its interval.

    It is how likely an answerable question scores above an unanswerable one, ties counting half (Mann and Whitney
    1947). Neither is empty.
    """
    wins = _wins(np.asarray(answerable), np.asarray(unanswerable))
    drawn = (weights(len(answerable)) @ wins) * weights(len(unanswerable), 1)
    return float(wins.mean()), interval(drawn.sum(axis=1))


def balanced_accuracy(answerable: Sequence[float], unanswerable: Sequence[float]) -> tuple[float, Interval]:
    """Return the mean of two shares of right verdicts, and its interval. Values are 1 for right, 0 for wrong."""
    ours, theirs = np.asarray(answerable, dtype=np.float64), np.asarray(unanswerable, dtype=np.float64)
    drawn = (weights(len(ours)) @ ours + weights(len(theirs), 1) @ theirs) / 2
    return float(ours.mean() + theirs.mean()) / 2, interval(drawn)


def refusal_curve(answerable: Sequence[float], unanswerable: Sequence[float]) -> list[tuple[float, float]]:
    """Return the trade-off of a score: at each tenth of answered questions, the share of unanswerable ones refused.

    A question counts as answered if it scores at or above the threshold; pairs are (answered, refused), most answered
    first. Neither argument is empty.
    """
    ours, theirs = np.sort(np.asarray(answerable)), np.asarray(unanswerable)
    thresholds = [ours[min(round(len(ours) * tenth / 10), len(ours) - 1)] for tenth in range(10)]
    return [
        (round(float((ours >= least).mean()), _DIGITS), round(float((theirs < least).mean()), _DIGITS))
        for least in thresholds
    ]


def _wins(above: Numbers, below: Numbers) -> Numbers:
    differences = above[:, None] - below[None, :]
    return np.heaviside(differences, 0.5)
