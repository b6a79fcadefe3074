"""Calibration keeps the order of estimates, and maps the known operating points to one half."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.calibration import calibrate_sufficiency
from nomemory.recall.model.sufficiency import Sufficiency


@given(st.floats(0, 1), st.floats(0, 1), st.booleans(), st.booleans(), st.booleans())
def test_calibration_is_monotone_and_returns_a_probability(
    first: float,
    other: float,
    apart: bool,  # noqa: FBT001 - drawn
    by_words: bool,  # noqa: FBT001 - drawn
    named: bool,  # noqa: FBT001 - drawn
) -> None:
    low, high = (
        calibrate_sufficiency(Sufficiency(value, apart, by_words), has_sender_names=named)
        for value in sorted((first, other))
    )
    assert 0 < low <= high < 1


@pytest.mark.parametrize(
    ("sufficiency", "named"),
    [
        (Sufficiency(0.5, speaker_matched=True), True),
        (Sufficiency(0.45, speaker_matched=False), True),
        (Sufficiency(0.75, speaker_matched=False, lexical_only=True), False),
        (Sufficiency(0.554, speaker_matched=False), False),
    ],
    ids=["speaker", "named", "by-words", "unnamed"],
)
def test_the_operating_point_of_each_kind_of_talk_becomes_one_half(sufficiency: Sufficiency, *, named: bool) -> None:
    assert calibrate_sufficiency(sufficiency, has_sender_names=named) == pytest.approx(0.5, abs=0.002)


def test_confidence_without_a_reader_is_moderated() -> None:
    assert calibrate_sufficiency(Sufficiency(0.99, speaker_matched=False), has_sender_names=False) < 0.9
