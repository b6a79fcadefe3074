"""A verdict depends on how likely the log answers, and on the thresholds of the host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.calibration import calibrated
from nomemory.recall.grounding.verdict import decide
from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.sufficiency import EnoughRule, Sufficiency

RULE = EnoughRule(supported=0.5, possible=0.3)


@pytest.mark.parametrize(
    ("estimate", "verdict"),
    [
        (0.5, Verdict.SUPPORTED),
        (0.49, Verdict.POSSIBLE),
        (0.3, Verdict.POSSIBLE),
        (0.29, Verdict.INSUFFICIENT),
        (None, Verdict.POSSIBLE),
    ],
)
def test_thresholds_decide_the_verdict(estimate: float | None, verdict: Verdict) -> None:
    assert decide(estimate, RULE, cited=True, contradictory=False).verdict is verdict


def test_a_view_without_citations_is_insufficient() -> None:
    assert decide(1.0, RULE, cited=False, contradictory=False).verdict is Verdict.INSUFFICIENT


def test_a_contradiction_is_reported_however_likely_the_answer() -> None:
    assert decide(0.0, RULE, cited=True, contradictory=True).verdict is Verdict.CONFLICTING


def test_a_correction_of_the_nearest_message_is_possible() -> None:
    assert decide(0.0, RULE, cited=True, contradictory=False, corrected=True).verdict is Verdict.POSSIBLE


@given(st.floats(0, 1), st.floats(0, 1), st.booleans(), st.booleans(), st.booleans())
def test_calibration_is_monotone_and_stays_a_probability(
    one: float,
    other: float,
    speaker_matched: bool,  # noqa: FBT001 - drawn
    by_words: bool,  # noqa: FBT001 - drawn
    named: bool,  # noqa: FBT001 - drawn
) -> None:
    low, high = (
        calibrated(Sufficiency(probability, speaker_matched, by_words), named=named)
        for probability in sorted((one, other))
    )
    assert 0 < low <= high < 1


@given(st.floats(0, 1), st.booleans())
def test_the_reason_is_plain_and_contains_no_content(estimate: float, cited: bool) -> None:  # noqa: FBT001 - drawn
    reason = decide(estimate, RULE, cited=cited, contradictory=False).reason
    assert reason.text
    assert reason.text.isascii()
