"""Quality metrics of rankings and verdicts, with bootstrap confidence intervals."""

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
"""Number of messages requested per ranking."""
SAMPLES: Final = 1_000
_SEED: Final = 20_240_229
_PERCENTILES: Final = (2.5, 97.5)
_DIGITS: Final = 4

Numbers = npt.NDArray[np.float64]
Interval = tuple[float, float]


def compute_ranking_metrics(ranked: Sequence[str], evidence: Collection[str]) -> dict[str, float]:
    """Return the metrics of a ranking, all from 0 to 1.

    `hit@k`: whether the first k messages contain evidence. `recall@k`: share of the evidence that is among the first k
    messages. `full@6`: whether the first six messages contain all evidence. `mrr`: reciprocal rank of the first
    evidence, 0 if the ranking has no evidence. `ndcg@10`: normalized discounted cumulative gain with binary relevance
    (Järvelin and Kekäläinen 2002).

    Args:
        ranked: unique message ids, best first.
        evidence: ids of the evidence, not empty.
    """
    hits = [message_id in evidence for message_id in ranked]
    recall = {k: sum(hits[:k]) / len(evidence) for k in RECALL_AT}
    return {
        **{f"hit@{k}": float(any(hits[:k])) for k in HIT_AT},
        **{f"recall@{k}": recall[k] for k in RECALL_AT},
        "full@6": float(recall[6] == 1),
        "mrr": 1 / (hits.index(True) + 1) if any(hits) else 0.0,
        f"ndcg@{NDCG_AT}": _compute_discounted_gain(hits[:NDCG_AT])
        / _compute_discounted_gain([True] * min(len(evidence), NDCG_AT)),
    }


def compute_session_metrics(
    ranked: Sequence[str], evidence: Collection[str], conversations: Mapping[str, str]
) -> dict[str, float]:
    """Return `session_recall@k`, the metric per conversation that other systems report; empty without conversations.

    `session_recall@k` is the share of the conversations of the evidence among the first k distinct conversations of the
    ranking. Messages without a conversation are ignored.
    """
    ranked_conversations = list(dict.fromkeys(conversations[message] for message in ranked if message in conversations))
    expected = {conversations[item] for item in evidence if item in conversations}
    return {
        f"session_recall@{k}": len(expected.intersection(ranked_conversations[:k])) / len(expected)
        for k in SESSIONS_AT
        if expected
    }


def compute_precision(ranked: Sequence[str], evidence: Collection[str]) -> float:
    """Return the share of evidence among the returned messages; 0 if no message was returned."""
    return sum(message_id in evidence for message_id in ranked) / len(ranked) if ranked else 0.0


def _compute_discounted_gain(hits: Sequence[bool]) -> float:
    return sum(1 / math.log2(rank + 1) for rank, hit in enumerate(hits, 1) if hit)


def compute_auc(answerable: Sequence[float], unanswerable: Sequence[float]) -> tuple[float, Interval]:
    """Return the area under the ROC curve of a score, and its 95 % confidence interval.

    The area is the probability that an answerable question scores higher than an unanswerable one; ties count half
    (Mann and Whitney 1947). Neither argument may be empty.
    """
    wins = _count_wins(np.asarray(answerable), np.asarray(unanswerable))
    resampled = (draw_bootstrap_weights(len(answerable)) @ wins) * draw_bootstrap_weights(len(unanswerable), 1)
    return float(wins.mean()), compute_confidence_interval(resampled.sum(axis=1))


def compute_balanced_accuracy(answerable: Sequence[float], unanswerable: Sequence[float]) -> tuple[float, Interval]:
    """Return the balanced accuracy of verdicts, and its 95 % confidence interval; values are 1 (right) or 0 (wrong)."""
    positive, negative = np.asarray(answerable, dtype=np.float64), np.asarray(unanswerable, dtype=np.float64)
    resampled = (
        draw_bootstrap_weights(len(positive)) @ positive + draw_bootstrap_weights(len(negative), 1) @ negative
    ) / 2
    return float(positive.mean() + negative.mean()) / 2, compute_confidence_interval(resampled)


def compute_refusal_curve(answerable: Sequence[float], unanswerable: Sequence[float]) -> list[tuple[float, float]]:
    """Return the pairs (answered, refused) at ten thresholds of a score, in descending order of `answered`.

    `answered` is the share of answerable questions that score at or above the threshold, `refused` the share of
    unanswerable ones below it. Neither argument may be empty.
    """
    positive, negative = np.sort(np.asarray(answerable)), np.asarray(unanswerable)
    thresholds = [positive[min(round(len(positive) * tenth / 10), len(positive) - 1)] for tenth in range(10)]
    return [
        (round(float((positive >= threshold).mean()), _DIGITS), round(float((negative < threshold).mean()), _DIGITS))
        for threshold in thresholds
    ]


def _count_wins(above: Numbers, below: Numbers) -> Numbers:
    differences = above[:, None] - below[None, :]
    return np.heaviside(differences, 0.5)


@lru_cache(maxsize=8)
def draw_bootstrap_weights(count: int, stream: int = 0) -> Numbers:
    """Return bootstrap weights of `count` questions, shape (SAMPLES, count); each row sums to 1.

    The samples are seeded, so that all methods are compared on the same samples; different values of `stream` give
    independent samples.
    """
    random = np.random.default_rng((_SEED, stream))
    counts = random.multinomial(count, np.full(count, 1 / count), size=SAMPLES)
    return counts.astype(np.float64) / count


def compute_confidence_interval(samples: Numbers) -> Interval:
    """Return the 95 % confidence interval of bootstrap samples (percentile method, Efron 1979)."""
    low, high = np.percentile(samples, _PERCENTILES)
    return float(low), float(high)


def compute_mean_interval(values: Sequence[float]) -> Interval:
    """Return the 95 % confidence interval of a mean; `values` must not be empty."""
    return compute_confidence_interval(draw_bootstrap_weights(len(values)) @ np.asarray(values, dtype=np.float64))
