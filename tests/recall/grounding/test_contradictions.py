"""Tests for the detection of contradictory assertions of one speaker."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.retrieved_messages import new_question, ranking, retrieved_message

from nomemory.recall.grounding.contradictions import MAX_COMPARED, find_contradictions
from nomemory.recall.model.evidence import Evidence, MessageRelation, RetrievedMessage


def contradictions_in(question: str, evidence: Sequence[Evidence], *pairs: tuple[str, str]) -> list[tuple[str, str]]:
    relations = [MessageRelation(earlier, later, 2.0, 0.5) for earlier, later in pairs]
    return [
        (item.message_id, other.message_id)
        for item, other in find_contradictions(evidence, relations, new_question(question))
    ]


def two(earlier: str, later: str) -> tuple[RetrievedMessage, RetrievedMessage]:
    return retrieved_message("old", earlier, 20), retrieved_message("new", later, 10)


def between(question: str, earlier: str, later: str) -> list[tuple[str, str]]:
    return contradictions_in(question, ranking(*two(earlier, later)), ("old", "new"))


@pytest.mark.parametrize(
    ("question", "earlier", "later"),
    [
        ("Have I ever been in a glider?", "I have never been in a glider.", "In the glider over Fuchs Hill I sang."),
        ("Do I play the oboe?", "I practise the oboe every morning.", "I never play the oboe."),
        ("我坐过滑翔机吗？", "我从没坐过滑翔机", "那次坐滑翔机飞过山谷，风特别大"),
        ("我有没有养过鹦鹉？", "鹦鹉我一只都没养过", "家里的鹦鹉今天学会叫我名字"),
        ("How many canoes do I own?", "I own two canoes.", "All three canoes are in the shed."),
        ("How many of my cousins row?", "Four of my cousins row.", "The 5 cousins who row came by."),
        ("我有几把小提琴？我家有几个琴房？", "家里有两个琴房", "我那三个琴房都空着"),
    ],
)
def test_denial_or_different_count_is_a_contradiction(question: str, earlier: str, later: str) -> None:
    assert between(question, earlier, later) == [("old", "new")]


@pytest.mark.parametrize(
    ("question", "earlier", "later"),
    [
        # The question is neither a yes-no question nor one for a number.
        ("What about gliders?", "I have never been in a glider.", "In the glider I sang."),
        ("Do I own canoes?", "I own two canoes.", "All three canoes are in the shed."),
        # The denial concerns only one occasion.
        ("Do I play the oboe?", "I practise the oboe every morning.", "I did not play the oboe on Sunday."),
        # Both messages are denials.
        ("Do I play the oboe?", "I never play the oboe.", "No oboe for me."),
        ("Do I play the oboe?", "I never play the oboe.", "The oboe lay about, and nothing came of it."),
        ("我坐过滑翔机吗？", "我从没坐过滑翔机", "滑翔机我可不敢坐"),
        # Counts of different things, or the same count.
        ("How many canoes do I own?", "I own two canoes.", "I own three paddles."),
        ("How many canoes do I own?", "I own two canoes.", "Both of the 2 canoes leak."),
        # One of the messages is pasted text.
        ("Do I play the oboe?", "My sister wrote:\n\nI never play the oboe.", "I practise the oboe every morning."),
    ],
)
def test_compatible_statements_are_not_contradictions(question: str, earlier: str, later: str) -> None:
    assert between(question, earlier, later) == []


def test_unrelated_messages_do_not_contradict_each_other() -> None:
    evidence = ranking(*two("I have never been in a glider.", "In the glider I sang."))
    assert contradictions_in("Have I been in a glider?", evidence) == []


def test_messages_dissimilar_to_the_question_are_not_compared() -> None:
    evidence = ranking(*two("I have never been in a glider.", "In the glider I sang."), deviations=0.9)
    assert contradictions_in("Have I been in a glider?", evidence, ("old", "new")) == []


def test_only_the_best_ranked_messages_are_compared() -> None:
    old, new = two("I have never been in a glider.", "In the glider I sang.")
    between_them = [retrieved_message(f"m{number}", "The glider is red.") for number in range(MAX_COMPARED - 1)]
    assert contradictions_in("Have I been in a glider?", ranking(old, *between_them, new), ("old", "new")) == []
    assert contradictions_in("Have I been in a glider?", ranking(old, *between_them[1:], new), ("old", "new")) == [
        ("old", "new")
    ]


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=100))
def test_arbitrary_texts_can_be_compared_and_equal_ones_never_conflict(first: str, other: str, question: str) -> None:
    assert between(question, first, first) == []
    assert between(question, first, other) in ([], [("old", "new")])
