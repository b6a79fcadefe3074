"""What a ranking and a verdict are worth, judged by labels alone, and how much a figure hangs on the questions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

HIT_AT: Final = (1, 6)
RECALL_AT: Final = (6, 10, 20, 50)
NDCG_AT: Final = 10
SESSIONS_AT: Final = (5, 10)
DEPTH: Final = max(RECALL_AT)
"""How many messages a ranking is asked for."""
SAMPLES: Final = 1_000
_SEED: Final = 20_240_229
_PERCENTILES: Final = (2.5, 97.5)
_DIGITS: Final = 4

Numbers = npt.NDArray[np.float64]
Interval = tuple[float, float]


def ranking_metrics(ranked: Sequence[str], evidence: Collection[str]) -> dict[str, float]:
    """Judge a ranking, best first, of different messages. `evidence` is not empty.

    `hit@k`: whether one of the first k is evidence. `recall@k`: the share of the evidence among the first k. `full@6`:
    whether all of it is among the first six. `mrr`: one over the rank of the first evidence, 0 if there is none.
    `ndcg@10`: discounted gain, each evidence message worth the same (Järvelin and Kekäläinen 2002). All are 0 to 1.
    """
    hits = [message_id in evidence for message_id in ranked]
    recall = {k: sum(hits[:k]) / len(evidence) for k in RECALL_AT}
    return {
        **{f"hit@{k}": float(any(hits[:k])) for k in HIT_AT},
        **{f"recall@{k}": recall[k] for k in RECALL_AT},
        "full@6": float(recall[6] == 1),
        "mrr": 1 / (hits.index(True) + 1) if any(hits) else 0.0,
        f"ndcg@{NDCG_AT}": _gain(hits[:NDCG_AT]) / _gain([True] * min(len(evidence), NDCG_AT)),
    }


def session_metrics(
    ranked: Sequence[str], evidence: Collection[str], conversations: Mapping[str, str]
) -> dict[str, float]:
    """Judge a ranking by conversations, which is how many others report it; {} where the evidence names none.

    `session_recall@k` is the share of the evidence's conversations that are among the first k different ones of the
    ranking. A message without a conversation counts for none.
    """
    found = list(dict.fromkeys(conversations[message] for message in ranked if message in conversations))
    wanted = {conversations[item] for item in evidence if item in conversations}
    return {f"session_recall@{k}": len(wanted.intersection(found[:k])) / len(wanted) for k in SESSIONS_AT if wanted}


def precision(ranked: Sequence[str], evidence: Collection[str]) -> float:
    """Return the share of evidence among what was returned; 0 where nothing was."""
    return sum(message_id in evidence for message_id in ranked) / len(ranked) if ranked else 0.0


def _gain(hits: Sequence[bool]) -> float:
    return sum(1 / math.log2(rank + 1) for rank, hit in enumerate(hits, 1) if hit)


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


@lru_cache(maxsize=8)
def weights(count: int, stream: int = 0) -> Numbers:
    """Draw `count` questions with replacement, many times: a row for each draw, with the share of each question.

    The same draws every time, so that methods are compared on the same ones; another `stream` draws independently.
    """
    random = np.random.default_rng((_SEED, stream))
    drawn = random.multinomial(count, np.full(count, 1 / count), size=SAMPLES)
    return drawn.astype(np.float64) / count


def interval(samples: Numbers) -> Interval:
    """Return the 95 % interval of a figure over all draws (percentile method, Efron 1979)."""
    low, high = np.percentile(samples, _PERCENTILES)
    return float(low), float(high)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the 95 % interval of a mean. `values` is not empty."""
    return interval(weights(len(values)) @ np.asarray(values, dtype=np.float64))
