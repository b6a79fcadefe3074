"""Tests for the selection of parts of long queries, and for the recognition of turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.conversation_turns import is_conversation_turn
from nomemory.text.query_parts import select_query_parts

TEXTS = st.lists(st.text("ab .。？?我\n", min_size=1, max_size=300), min_size=1, max_size=40).map("".join)


@given(TEXTS)
def test_query_parts_are_limited_in_number_and_length(text: str) -> None:
    parts = select_query_parts(text)
    assert len(parts) <= 4
    assert parts == [text] or all(0 < len(part) <= 1_000 for part in parts)


def test_both_ends_of_a_pasted_page_are_query_parts() -> None:
    page = "The opening says what is wanted. " + "Filler without content. " * 400 + "The closing names the deadline."
    parts = select_query_parts(page)
    assert parts[0].startswith("The opening")
    assert parts[-1].endswith("names the deadline.")


def test_densest_parts_of_a_pasted_page_are_query_parts() -> None:
    dense = (
        "Boiler pressure, valve, gasket, thermostat, manifold and expansion vessel were replaced by Ines Moreau. " * 4
    )
    page = "la la la. " * 300 + dense + "la la la. " * 300
    assert any("thermostat" in part for part in select_query_parts(page))


@pytest.mark.parametrize(
    "text",
    [
        "Hi. I have the introduction script ready. What's the best way for me to practice it now?",
        "Okay. Pinot Noir and Chianti. I'll add those to the list.",
        "我今天又头疼了，一整天都没有精神。你上次说的那个办法我试过了，要不要换一个？",
    ],
)
def test_statement_is_recognized_as_a_turn(text: str) -> None:
    assert is_conversation_turn(text)


@pytest.mark.parametrize(
    "text",
    [
        "When did I hand in the lab report?",
        "陆明强在四月采取了哪些措施？",
        "刚参加完活动，收获满满。我真正想问的是：那个活动的地点是什么？",
        "red wine pairing",
    ],
)
def test_question_or_keywords_are_not_a_turn(text: str) -> None:
    assert not is_conversation_turn(text)
