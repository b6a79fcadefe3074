"""Tests for the distinction of questions and assertions."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.question_detection import contains_only_questions

BRIEF_S = 0.2
"""CPU time, several times what the longest text takes."""


@pytest.mark.parametrize(
    "text",
    [
        "Which train goes to Porto?",
        "which train goes to Porto",
        "so when does the library open",
        "is the ferry running today",
        "Is it late? Am I early?",
        "Which ferry is better, the early one or the late one, for a family?",
        "If the ferry is late, which train goes to Porto?",
        "Hi, can you help?",
        "图书馆几点开门",
        "这条裙子好不好看",
        "你觉得去哪里爬山比较好？",
        "如果下雨，去哪里爬山比较好？",
        "有没有便宜一点的琴行",
    ],
)
def test_pure_questions_are_recognized_with_or_without_question_mark(text: str) -> None:
    assert contains_only_questions(text)


@pytest.mark.parametrize(
    "text",
    [
        "I moved the piano to the attic.",
        "The ferry was late. Is it always?",
        "My choir sings in Porto on the ninth of May, can you help me plan the journey?",
        "I'm off to Porto on Friday; which train goes there",
        "Mending the cello cost me 1,200, what can I do?",
        "Can you fix this?\nThe cat sat on the mat.",
        "我把钢琴搬到阁楼去了。",
        "我把钢琴搬到阁楼去了，你说好不好？我自己是挺满意的。",
        "琴行下周搬家，新地址在哪",
        "合唱团五月九号在波尔图演出，你能帮我安排行程吗？",
        "我们乐队排练改到周四了",
        "帮我想想给琴老师送什么，下月9号是她生日",
        "我倒是啥乐器都不会，我弟会拉琴",
        "Whatever happens, the piano stays.",
        "",
        "…",
        "It costs 3.50 at the quay.",
        "is " + "a very long sentence about a piano, " * 4,
    ],
)
def test_questions_with_an_assertion_are_not_pure_questions(text: str) -> None:
    assert not contains_only_questions(text)


@given(st.text(max_size=2_000))
def test_arbitrary_text_can_be_classified(text: str) -> None:
    contains_only_questions(text)


@pytest.mark.parametrize("text", ["," * 2_000, "?" * 2_000, "什么，" * 660, "is it, " * 280, "and " * 500, " " * 2_000])
def test_text_classification_time_is_bounded(text: str) -> None:
    begun = time.process_time()
    contains_only_questions(text)
    assert time.process_time() - begun < BRIEF_S
