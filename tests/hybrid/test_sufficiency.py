"""Tests for the sufficiency estimate and the features that change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.search.hybrid.sufficiency import SufficiencyFeatures, compute_subject_score, estimate_sufficiency

floats = st.floats(0, 1)


def arrays(draw: st.DrawFn, count: int) -> np.ndarray:
    return np.array(draw(st.lists(floats, min_size=count, max_size=count)))


def flags(draw: st.DrawFn, count: int) -> np.ndarray:
    return np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=np.bool_)


@st.composite
def candidates(draw: st.DrawFn) -> SufficiencyFeatures:
    count = draw(st.integers(0, 60))
    texts = st.sampled_from(["I ran", "you ran", "we and you", "it rained", "你跑了", "我跑了", ""])
    return SufficiencyFeatures(
        match_scores=arrays(draw, count),
        cosines=arrays(draw, count) if draw(st.booleans()) else None,
        coverage=arrays(draw, count) if draw(st.booleans()) else None,
        message_count=max(1, count),
        unknown_terms=draw(floats),
        is_assertion=flags(draw, count),
        speaker_indexes=np.array(draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count)), dtype=np.int64),
        ends_with_question=flags(draw, count),
        get_text=draw(st.lists(texts, min_size=count, max_size=count)).__getitem__,
    )


def of_user(cosines: Sequence[float], **fields: object) -> SufficiencyFeatures:
    """Return unnamed user assertions that match equally well."""
    count = len(cosines)
    plain = SufficiencyFeatures(
        match_scores=np.ones(count),
        cosines=np.array(cosines),
        coverage=np.full(count, 0.5),
        message_count=100,
        unknown_terms=0.2,
        is_assertion=np.ones(count, dtype=np.bool_),
        speaker_indexes=np.full(count, -1, dtype=np.int64),
        ends_with_question=np.zeros(count, dtype=np.bool_),
        get_text=lambda _: "it rained",
    )
    return replace(plain, **fields)  # type: ignore[arg-type]  # fields of the test's choice


def likely(some: SufficiencyFeatures) -> float:
    return estimate_sufficiency(some, (), 0)


@given(candidates(), st.sets(st.integers(0, 2)), st.integers(0, 5))
def test_sufficiency_is_between_zero_and_one(
    some: SufficiencyFeatures, named_speakers: set[int], speakers: int
) -> None:
    assert 0 <= estimate_sufficiency(some, named_speakers, speakers) <= 1


def test_sufficiency_without_results_is_zero() -> None:
    assert likely(of_user([])) == 0.0


def test_sufficiency_rises_with_similarity_and_falls_with_shared_terms_that_are_not_similar() -> None:
    plain = likely(of_user([0.75, 0.72]))
    assert likely(of_user([0.78, 0.72])) > plain
    assert likely(of_user([0.75, 0.72], coverage=np.array([0.9, 0.1]))) < plain
    assert likely(of_user([0.75, 0.72], unknown_terms=0.9)) < plain
    assert likely(of_user([0.75, 0.72], message_count=2)) > plain > likely(of_user([0.75, 0.72], message_count=9_000))


def test_similar_question_of_the_user_does_not_raise_the_sufficiency() -> None:
    asserting = np.array([False, True])
    assert likely(of_user([0.95, 0.83], is_assertion=asserting)) < likely(of_user([0.95, 0.83]))
    nobody = np.array([False, False])
    assert likely(of_user([0.95, 0.83], is_assertion=nobody)) == likely(of_user([0.95, 0.83]))


@given(st.lists(floats, min_size=1, max_size=20), floats)
def test_sufficiency_falls_when_the_question_names_another_speaker(scores: Sequence[float], cosine: float) -> None:
    """All messages are first-person statements of the first of two senders."""
    count = len(scores)
    said_by_first = of_user(
        [cosine] * count,
        match_scores=np.array(scores),
        coverage=np.array(scores),
        speaker_indexes=np.zeros(count, dtype=np.int64),
        get_text=lambda _: "I ran a marathon",
    )
    of_first, of_second = estimate_sufficiency(said_by_first, [0], 2), estimate_sufficiency(said_by_first, [1], 2)
    assert of_first > of_second
    asking_back = replace(said_by_first, get_text=lambda _: "you ran a marathon")
    assert estimate_sufficiency(asking_back, [1], 2) > estimate_sufficiency(asking_back, [0], 2)
    assert (
        compute_subject_score("I ran", is_question=False)
        > compute_subject_score("You and I", is_question=False)
        > compute_subject_score("you ran", is_question=False)
    )
