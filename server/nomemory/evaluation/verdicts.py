"""Whether a method knows what it does not know: answerable against unanswerable questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nomemory.evaluation.bootstrap import Interval, Numbers, interval, weights


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


def _wins(above: Numbers, below: Numbers) -> Numbers:
    differences = above[:, None] - below[None, :]
    return np.heaviside(differences, 0.5)
