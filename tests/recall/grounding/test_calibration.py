"""Tests for the calibration of sufficiency estimates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.calibration import calibrate_sufficiency
from nomemory.recall.model.sufficiency import Sufficiency


@given(st.floats(0, 1), st.floats(0, 1), st.booleans(), st.booleans())
def test_calibration_is_monotone_and_returns_a_probability(
    first: float,
    other: float,
    speaker_matched: bool,  # noqa: FBT001 - drawn
    lexical_only: bool,  # noqa: FBT001 - drawn
) -> None:
    low, high = (
        calibrate_sufficiency(Sufficiency(value, speaker_matched, lexical_only)) for value in sorted((first, other))
    )
    assert 0 <= low <= high <= 1


@pytest.mark.parametrize(
    "sufficiency",
    [
        Sufficiency(0.5, speaker_matched=True),
        Sufficiency(0.5, speaker_matched=True, lexical_only=True),
        Sufficiency(0.5, speaker_matched=False),
        Sufficiency(0.75, speaker_matched=False, lexical_only=True),
    ],
    ids=["speaker", "speaker-lexical", "semantic", "lexical"],
)
def test_threshold_of_each_estimate_maps_to_one_half(sufficiency: Sufficiency) -> None:
    assert calibrate_sufficiency(sufficiency) == pytest.approx(0.5, abs=0.002)
