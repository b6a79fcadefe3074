"""Tests for the verdict by the calibrated sufficiency and the thresholds of the host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.verdict import decide_verdict
from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.note import NoteKind
from nomemory.recall.model.sufficiency import SufficiencyThresholds

RULE = SufficiencyThresholds(supported=0.5, possible=0.3)


@pytest.mark.parametrize(
    ("estimate", "verdict"),
    [
        (1.0, Verdict.SUPPORTED),
        (0.5, Verdict.SUPPORTED),
        (0.49, Verdict.POSSIBLE),
        (0.3, Verdict.POSSIBLE),
        (0.29, Verdict.INSUFFICIENT),
        (0.0, Verdict.INSUFFICIENT),
    ],
)
def test_thresholds_separate_supported_possible_and_insufficient(estimate: float, verdict: Verdict) -> None:
    ruling = decide_verdict(estimate, RULE, has_valid_statement=True, has_contradiction=False)
    assert (ruling.verdict, ruling.sufficiency_threshold) == (verdict, 0.5)


def test_a_view_without_citations_is_insufficient() -> None:
    assert decide_verdict(1.0, RULE, has_valid_statement=False, has_contradiction=False).verdict is Verdict.INSUFFICIENT


def test_contradiction_is_reported_at_any_sufficiency() -> None:
    assert decide_verdict(0.0, RULE, has_valid_statement=True, has_contradiction=True).verdict is Verdict.CONFLICTING


def test_quotes_without_an_estimate_have_the_verdict_possible() -> None:
    ruling = decide_verdict(None, RULE, has_valid_statement=True, has_contradiction=False)
    assert (ruling.verdict, ruling.sufficiency_threshold) == (Verdict.POSSIBLE, None)


def test_correction_of_the_nearest_message_is_possible_at_any_sufficiency() -> None:
    ruling = decide_verdict(0.0, RULE, has_valid_statement=True, has_contradiction=False, is_corrected=True)
    assert (ruling.verdict, ruling.reason.kind) == (Verdict.POSSIBLE, NoteKind.CORRECTED)
    assert (
        decide_verdict(0.7, RULE, has_valid_statement=True, has_contradiction=False, is_corrected=True).verdict
        is Verdict.SUPPORTED
    )


@given(st.floats(0, 1), st.booleans(), st.booleans())
def test_reason_is_readable_and_contains_no_content(estimate: float, cited: bool, corrected: bool) -> None:  # noqa: FBT001 - drawn
    reason = decide_verdict(
        estimate, RULE, has_valid_statement=cited, has_contradiction=False, is_corrected=corrected
    ).reason
    assert reason.text
    assert reason.text.isascii()
