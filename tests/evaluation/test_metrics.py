"""Tests for the metrics with manual calculations and independent definitions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.metrics import (
    compute_auc,
    compute_balanced_accuracy,
    compute_mean_interval,
    compute_precision,
    compute_ranking_metrics,
    compute_session_metrics,
    draw_bootstrap_weights,
)

IDS = [f"m{n}" for n in range(80)]
rankings = st.lists(st.sampled_from(IDS), unique=True, max_size=60)
evidence_sets = st.frozensets(st.sampled_from(IDS), min_size=1, max_size=12)
scores = st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=15)


def test_ranking_metrics_match_a_manual_calculation() -> None:
    ranked = ["x", "a", "y", "b", *(f"z{n}" for n in range(4)), "c"]
    assert compute_ranking_metrics(ranked, {"a", "b", "c", "d"}) == {
        "hit@1": 0,
        "hit@6": 1,
        "recall@6": 0.5,
        "recall@10": 0.75,
        "recall@20": 0.75,
        "recall@50": 0.75,
        "full@6": 0,
        "mrr": 0.5,
        "ndcg@10": pytest.approx((0.63093 + 0.43068 + 0.30103) / (1 + 0.63093 + 0.5 + 0.43068), abs=1e-4),
    }
    assert compute_precision(ranked, {"a", "b", "c", "d"}) == pytest.approx(3 / 9)


def test_metrics_are_0_if_nothing_is_found_and_1_if_all_is() -> None:
    assert set(compute_ranking_metrics([], {"a"}).values()) == {0}
    assert set(compute_ranking_metrics(["a"], {"a"}).values()) == {1}
    assert compute_precision([], {"a"}) == 0


@given(rankings, evidence_sets)
def test_metrics_match_their_definitions(ranked: list[str], evidence: frozenset[str]) -> None:
    metrics = compute_ranking_metrics(ranked, evidence)
    for k in (6, 10, 20, 50):
        assert metrics[f"recall@{k}"] == pytest.approx(len(evidence & set(ranked[:k])) / len(evidence))
    for k in (1, 6):
        assert metrics[f"hit@{k}"] == (not evidence.isdisjoint(ranked[:k]))
    assert metrics["full@6"] == (evidence <= set(ranked[:6]))
    ranks = [rank for rank, item in enumerate(ranked, 1) if item in evidence]
    assert metrics["mrr"] == (1 / min(ranks) if ranks else 0)
    gained = math.fsum(math.log(2) / math.log(rank + 1) for rank in ranks if rank <= 10)
    ideal = math.fsum(math.log(2) / math.log(rank + 1) for rank in range(1, min(10, len(evidence)) + 1))
    assert metrics["ndcg@10"] == pytest.approx(gained / ideal)
    assert all(0 <= value <= 1 + 1e-12 for value in metrics.values())


@given(scores, scores)
def test_auc_is_the_share_of_correctly_ordered_pairs(ours: list[float], theirs: list[float]) -> None:
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in product(ours, theirs)]
    area, (low, high) = compute_auc(ours, theirs)
    assert area == pytest.approx(sum(pairs) / len(pairs))
    assert 0 <= low <= high <= 1 + 1e-12


def test_auc_matches_a_manual_calculation() -> None:
    assert compute_auc([0.9, 0.6], [0.7, 0.1])[0] == 0.75
    assert compute_auc([0.5], [0.5])[0] == 0.5
    assert compute_auc([1.0, 1.0], [0.0])[1] == pytest.approx((1, 1))


def test_auc_bootstrap_resamples_both_classes_independently() -> None:
    scores = [n / 50 for n in range(50)]
    area, (low, high) = compute_auc(scores, scores)
    assert area == 0.5
    assert high - low > 0.1, "if pairs were resampled together, wins and losses would cancel out"


def test_balanced_accuracy_weighs_both_sides_the_same() -> None:
    assert compute_balanced_accuracy([1, 1, 1, 0], [0])[0] == pytest.approx(0.375)
    assert compute_balanced_accuracy([1, 1], [1])[1] == pytest.approx((1, 1))


def test_bootstrap_interval_is_deterministic_and_has_the_theoretical_width() -> None:
    values = np.random.default_rng(1).random(400)
    low, high = compute_mean_interval(list(values))
    error = values.std() / math.sqrt(len(values))
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.1)
    assert low < values.mean() < high
    draw_bootstrap_weights.cache_clear()
    assert compute_mean_interval(list(values)) == (low, high)


def test_every_bootstrap_sample_has_the_original_size() -> None:
    assert draw_bootstrap_weights(50).sum(axis=1) == pytest.approx(np.ones(1000))


def test_conversations_are_ranked_by_their_first_message() -> None:
    conversations = {"a": "1", "b": "1", "c": "2", "d": "3", "e": "4", "f": "5", "g": "6"}
    ranked = ("x", "a", "b", "c", "d", "e", "f", "g")
    metrics = compute_session_metrics(ranked, {"b", "g"}, conversations)
    assert metrics == {"session_recall@5": 0.5, "session_recall@10": 1}, "g is in the sixth conversation"
    assert compute_session_metrics(ranked, {"x"}, conversations) == {}
