"""What is asked for decides in which section an answer stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.model.memory_view import Section
from nomemory.recall.synthesis.sections import section_of
from nomemory.text.question_reading import QuestionReading


@pytest.mark.parametrize(
    ("question", "section"),
    [
        ("What music do I like?", Section.PREFERENCES),
        ("我喜欢哪种茶？", Section.PREFERENCES),
        ("In which format do I want my minutes?", Section.PREFERENCES),
        ("What am I allergic to?", Section.CONSTRAINTS),
        ("哪类药我不能吃？", Section.CONSTRAINTS),
        ("Which rules did I give you?", Section.CONSTRAINTS),
        ("Where is my workshop?", Section.PROFILE),
        ("我的工作室在哪里？", Section.PROFILE),
        ("", Section.PROFILE),
    ],
)
def test_likes_limits_and_everything_else(question: str, section: Section) -> None:
    assert section_of(QuestionReading(question)) is section


@given(st.text(max_size=200))
def test_every_question_has_a_section(question: str) -> None:
    assert section_of(QuestionReading(question)) in Section
