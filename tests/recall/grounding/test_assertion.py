"""Tests for the detection of assertions and the attribution of content by sender and format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.retrieved_messages import new_question, retrieved_message

from nomemory.recall.grounding.assertions import (
    can_answer_question,
    determine_attribution,
    have_sender_names,
    is_quoted_text,
)
from nomemory.recall.model.memory_view import Attribution
from nomemory.recall.model.question import Role

PASTED = "Look what the landlord wrote:\n\nThe heating will be off on Thursday."
QUOTED_LINE = "> The heating will be off on Thursday.\nCharming."
CODE = "This fails:\n```\nraise SystemExit\n```"
LONG_LIST = "\n".join(f"line {number}" for number in range(6))


@pytest.mark.parametrize(
    ("content", "states"),
    [
        ("Which varnish did I buy for the boat?", False),
        ("which varnish did I buy for the boat", False),
        ("Back at the quay, which varnish did I buy for the boat?", False),
        ("We painted the boat blue, which varnish did I buy?", True),
        ("I bought the varnish for the boat", True),
        ("I bought yacht varnish for the boat, is it any good?", True),
    ],
)
def test_earlier_message_with_the_same_question_is_not_an_answer(content: str, *, states: bool) -> None:
    question = new_question("Which varnish did I buy for the boat, back then?")
    assert can_answer_question(retrieved_message("m1", content), question, has_sender_names=False) is states


def test_assistant_message_answers_only_questions_about_the_assistant() -> None:
    advice = retrieved_message("m1", "You should varnish it twice.", role=Role.ASSISTANT)
    user_message = retrieved_message("m2", "I varnished it twice.")
    plain = new_question("How often was the boat varnished?")
    assert can_answer_question(user_message, plain, has_sender_names=False)
    assert not can_answer_question(advice, plain, has_sender_names=False)
    assert can_answer_question(advice, new_question("What did you suggest about the varnish?"), has_sender_names=False)
    assert can_answer_question(advice, new_question("你之前建议了什么漆？"), has_sender_names=False)


def test_only_messages_of_the_requested_role_can_answer() -> None:
    advice = retrieved_message("m1", "You should varnish it twice.", role=Role.ASSISTANT)
    user_message = retrieved_message("m2", "I varnished it twice.")
    question = new_question("How often was the boat varnished?", Role.ASSISTANT)
    assert can_answer_question(advice, question, has_sender_names=False)
    assert not can_answer_question(user_message, question, has_sender_names=False)
    anybody = new_question("How often was the boat varnished?", Role.ANY)
    assert can_answer_question(user_message, anybody, has_sender_names=False)


def test_roles_are_ignored_if_senders_have_names() -> None:
    other = retrieved_message("m1", "I varnished it twice.", role=Role.ASSISTANT, name="Ravi")
    assert can_answer_question(other, new_question("How often did Ravi varnish the boat?"), has_sender_names=True)


def test_senders_have_names_if_most_messages_do() -> None:
    some = [
        retrieved_message("m1", "a", name="Ravi"),
        retrieved_message("m2", "b", name="Ines"),
        retrieved_message("m3", "c"),
    ]
    assert have_sender_names(some)
    assert not have_sender_names(some[1:])
    assert not have_sender_names([])


@pytest.mark.parametrize(
    ("content", "role", "name", "whose"),
    [
        ("I varnished it twice.", Role.USER, "", Attribution.USER),
        ("I varnished it twice.", Role.USER, "Ravi", Attribution.UNSPECIFIED),
        ("You should varnish it twice.", Role.ASSISTANT, "", Attribution.OTHER),
        ("The user likes rain.", Role.SYSTEM, "", Attribution.OTHER),
        ("I varnished it twice.", Role.TOOL, "", Attribution.OTHER),
        (PASTED, Role.USER, "", Attribution.QUOTED),
        (PASTED, Role.USER, "Ravi", Attribution.QUOTED),
        (PASTED, Role.ASSISTANT, "", Attribution.OTHER),
        (QUOTED_LINE, Role.USER, "", Attribution.QUOTED),
        (CODE, Role.USER, "", Attribution.QUOTED),
        (LONG_LIST, Role.USER, "", Attribution.QUOTED),
    ],
)
def test_attribution_depends_on_role_name_and_quoting(content: str, role: Role, name: str, whose: Attribution) -> None:
    assert determine_attribution(retrieved_message("m1", content, role=role, name=name)) is whose


@pytest.mark.parametrize(
    "content",
    [
        "转发一下物业的通知：\n\n周四停暖气。",
        "朋友发我的：\n今晚别出门",
        PASTED,
        CODE,
    ],
)
def test_quoted_block_is_recognized_by_its_format(content: str) -> None:
    assert is_quoted_text(content)


@pytest.mark.parametrize(
    "content", ["记住：我吃素", "Note: I moved.", "Two things.\nI moved. I also sold the boat.", "", "5 > 3"]
)
def test_plain_message_is_not_a_quoted_block(content: str) -> None:
    assert not is_quoted_text(content)


@given(st.text(max_size=2_000))
def test_arbitrary_text_can_be_attributed(content: str) -> None:
    can_answer_question(retrieved_message("m1", content), new_question("How often?"), has_sender_names=False)
    determine_attribution(retrieved_message("m1", content))
