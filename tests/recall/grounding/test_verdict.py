"""A verdict is how likely the log answers, against the host's operating points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.verdict import decide
from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.sufficiency import EnoughRule, Sufficiency

RULE = EnoughRule(speaker_matched=0.8, named=0.6, unnamed=0.2, semantic_unavailable=0.7)


@pytest.mark.parametrize(
    ("speaker_matched", "semantic_unavailable", "named", "least"),
    [
        (True, False, True, 0.8),
        (True, True, False, 0.8),
        (False, True, True, 0.7),
        (False, False, True, 0.6),
        (False, False, False, 0.2),
    ],
)
def test_each_operating_point_decides_its_own_case(
    *, speaker_matched: bool, semantic_unavailable: bool, named: bool, least: float
) -> None:
    for probability, verdict in ((least, Verdict.SUPPORTED), (least - 0.01, Verdict.INSUFFICIENT)):
        known = Sufficiency(probability, speaker_matched, by_words=semantic_unavailable)
        assert decide(known, RULE, cited=True, contradictory=False, named=named).verdict is verdict


def test_what_cites_nothing_answers_nothing() -> None:
    sure = Sufficiency(1.0, speaker_matched=True)
    assert decide(sure, RULE, cited=False, contradictory=False, named=False).verdict is Verdict.INSUFFICIENT


def test_a_contradiction_is_told_however_likely_the_answer() -> None:
    unsure = Sufficiency(0.0, speaker_matched=False)
    assert decide(unsure, RULE, cited=True, contradictory=True, named=False).verdict is Verdict.CONFLICTING


def test_what_no_search_ranked_is_taken_as_it_is() -> None:
    assert decide(None, RULE, cited=True, contradictory=False, named=False).verdict is Verdict.SUPPORTED


@given(st.floats(0, 1), st.booleans(), st.booleans(), st.booleans())
def test_the_reason_is_plain_and_holds_no_content(probability: float, apart: bool, words: bool, cited: bool) -> None:  # noqa: FBT001 - drawn
    reason = decide(Sufficiency(probability, apart, words), RULE, cited=cited, contradictory=False, named=False).reason
    assert reason.text
    assert reason.text.isascii()
