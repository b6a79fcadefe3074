"""Tests for the section of a message, which depends on its wording and not on the question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.retrieved_messages import retrieved_message

from nomemory.recall.model.memory_view import Section
from nomemory.recall.synthesis.sections import determine_section


@pytest.mark.parametrize(
    ("content", "section"),
    [
        ("I really like smoked tea.", Section.PREFERENCES),
        ("My favourite tea is smoked.", Section.PREFERENCES),
        ("我最喜欢烟熏味的茶", Section.PREFERENCES),
        ("I can't drink smoked tea.", Section.CONSTRAINTS),
        ("Never serve me smoked tea.", Section.CONSTRAINTS),
        ("One more thing, please don't book anything before ten.", Section.CONSTRAINTS),
        ("我不能喝浓茶", Section.CONSTRAINTS),
        ("以后写会议记录，不要用表格", Section.CONSTRAINTS),
        ("My cousin runs a tea house in Turku.", Section.PROFILE),
        ("我表姐在图尔库开茶馆", Section.PROFILE),
        ("I have never kept bees.", Section.PROFILE),
        ("never mind, found it", Section.PROFILE),
        ("My landlord wrote:\n\nNever leave the bicycle in the hall.", Section.PROFILE),
        ("", Section.PROFILE),
    ],
)
def test_messages_are_classified_as_preferences_commitments_or_profile(content: str, section: Section) -> None:
    assert determine_section(retrieved_message("m1", content)) is section


@given(st.text(max_size=500))
def test_every_message_has_a_section(content: str) -> None:
    assert determine_section(retrieved_message("m1", content)) in Section
