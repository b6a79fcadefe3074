"""Calibration keeps the order of estimates, and maps the known operating points to one half."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.calibration import calibrated
from nomemory.recall.model.sufficiency import Sufficiency


@given(st.floats(0, 1), st.floats(0, 1), st.booleans(), st.booleans(), st.booleans())
def test_calibration_is_monotone_and_returns_a_probability(
    first: float,
    other: float,
    apart: bool,  # noqa: FBT001 - drawn
    by_words: bool,  # noqa: FBT001 - drawn
    named: bool,  # noqa: FBT001 - drawn
) -> None:
    low, high = (calibrated(Sufficiency(value, apart, by_words), named=named) for value in sorted((first, other)))
    assert 0 < low <= high < 1


@pytest.mark.parametrize(
    ("sufficiency", "named"),
    [
        (Sufficiency(0.5, speaker_matched=True), True),
        (Sufficiency(0.45, speaker_matched=False), True),
        (Sufficiency(0.75, speaker_matched=False, by_words=True), False),
        (Sufficiency(0.554, speaker_matched=False), False),
    ],
    ids=["speaker", "named", "by-words", "unnamed"],
)
def test_the_operating_point_of_each_kind_of_talk_becomes_one_half(sufficiency: Sufficiency, *, named: bool) -> None:
    assert calibrated(sufficiency, named=named) == pytest.approx(0.5, abs=0.002)


def test_confidence_without_a_reader_is_moderated() -> None:
    assert calibrated(Sufficiency(0.99, speaker_matched=False), named=False) < 0.9
