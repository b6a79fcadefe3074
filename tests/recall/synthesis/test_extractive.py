"""Statements without a model: the likeliest messages, whole, newest first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.told import asked, findings, ranking, told

from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.memory_view import Section
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.extractive import LEAST, MOST, ExtractiveSynthesiser, chosen, probability

LINES = [told(f"m{number}", f"The lamp in room {number} is broken.", number) for number in range(1, 9)]
QUOTED = EnoughRule().quoted
FLOATS = st.floats(-5, 5)
EVIDENCE = st.lists(st.tuples(FLOATS, FLOATS), max_size=8).map(
    lambda some: [
        Evidence(message, score, deviations)
        for message, (score, deviations) in zip(LINES, sorted(some, reverse=True), strict=False)
    ]
)


@given(EVIDENCE)
def test_the_first_is_quoted_always_and_never_more_than_four(evidence: list[Evidence]) -> None:
    kept = chosen(evidence, QUOTED)
    assert min(LEAST, len(evidence)) <= len(kept) <= MOST
    assert kept[:LEAST] == evidence[:LEAST]
    assert [one for one in evidence if one in kept] == kept


def test_what_is_far_behind_or_far_from_the_question_is_left_out() -> None:
    near = ranking(*LINES, deviations=4.0)
    assert len(chosen(near, QUOTED)) == MOST
    assert len(chosen(ranking(*LINES, deviations=-4.0), QUOTED)) == LEAST


def test_one_clear_winner_stands_alone() -> None:
    first, *others = ranking(*LINES, deviations=4.0)
    far = [replace(one, score=1.0, deviations=0.5) for one in others]
    assert chosen([first, *far], QUOTED) == [first]
    assert len(chosen([first, *others], QUOTED)) > 1


def test_where_meaning_could_not_be_searched_nearness_leaves_nothing_out() -> None:
    assert len(chosen(ranking(*LINES, deviations=0.0), QUOTED)) > LEAST


@given(st.integers(0, 9), st.floats(-5, 0), FLOATS)
def test_likelier_is_what_stands_higher_scores_more_or_lies_nearer(place: int, gap: float, nearness: float) -> None:
    here = probability(place, gap, nearness)
    assert 0 < here < 1
    assert here > probability(place + 1, gap, nearness)
    assert here < probability(place, gap + 0.1, nearness)
    assert here < probability(place, gap, nearness + 0.1)


async def test_messages_are_quoted_whole_and_newest_first_whatever_the_question_is_called() -> None:
    evidence = ranking(LINES[4], LINES[0], LINES[2], deviations=4.0)
    synthesiser = ExtractiveSynthesiser(QUOTED)
    drafts = (await synthesiser.draft(asked("What do I like?"), Skill("s", "d", ""), findings(evidence))).statements
    assert [draft.text for draft in drafts] == [one.content for one in (LINES[0], LINES[2], LINES[4])]
    assert {draft.section for draft in drafts} == {Section.PROFILE}
    assert [[citation.message_id for citation in draft.citations] for draft in drafts] == [["m1"], ["m3"], ["m5"]]


@pytest.mark.parametrize("text", ["Which lamp is broken?", "哪盏灯坏了？", "", "."])
async def test_nothing_found_is_nothing_said_and_something_found_is_said(text: str) -> None:
    synthesiser, skill = ExtractiveSynthesiser(QUOTED), Skill("s", "d", "")
    assert (await synthesiser.draft(asked(text), skill, findings(()))).statements == ()
    assert len((await synthesiser.draft(asked(text), skill, findings(ranking(LINES[0])))).statements) == 1
