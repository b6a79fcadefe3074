"""Tests for the extraction of question sentences and the resulting queries."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.names import remove_names
from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.question_detection import find_question_sentences
from nomemory.text.question_words import build_words_query, extract_content_words, extract_exact_phrases

NOW = datetime(2026, 3, 14, tzinfo=UTC)
BRIEF_S = 0.1


def test_question_words_are_omitted() -> None:
    assert extract_content_words("你还记得我在哪里工作吗？") == ["在", "工作"]
    assert extract_content_words("Do you remember what my brother is called?") == ["brother", "called"]


def test_quoted_and_reported_speech_becomes_exact_phrases() -> None:
    assert extract_exact_phrases("我是不是说过我不吃辣？") == ["不吃辣"]
    assert extract_exact_phrases("我说过“清汤锅”吗？《云上邮局》呢？") == ["清汤锅", "云上邮局"]
    assert extract_exact_phrases("Did I ever say that I was vegetarian?") == ["vegetarian"]


def test_small_talk_is_omitted_and_every_question_sentence_kept() -> None:
    assert find_question_sentences("今天天气真好。体检是哪天？另外，年糕几岁了？") == [
        "体检是哪天？",
        "另外，年糕几岁了？",
    ]
    assert find_question_sentences("中午吃什么呢？不对，我真正想问的是，我的体检是哪天？") == ["我的体检是哪天？"]
    assert find_question_sentences("Late? I want to know where I live. And when is my exam?") == [
        "where I live.",
        "And when is my exam?",
    ]
    assert len(find_question_sentences("a? " * 9)) == 4
    assert find_question_sentences("just words") == ["just words"]


def test_a_question_that_refers_back_includes_the_statement_before_it() -> None:
    assert find_question_sentences("7月我推荐过一个户外圣地。这个地方在哪里？") == [
        "7月我推荐过一个户外圣地。 这个地方在哪里？"
    ]
    assert find_question_sentences("We rented a boat in May. What did it cost? Ok. Where was it?") == [
        "We rented a boat in May. What did it cost?",
        "Where was it?",
    ]


@pytest.mark.parametrize("text", ["我在论坛上遇到的问题是什么？", "三月我主要了解了哪些概念？"])
def test_announcement_words_within_a_question_are_kept(text: str) -> None:
    assert find_question_sentences(text) == [text]


def test_time_in_small_talk_is_not_the_time_of_the_question() -> None:
    assert QuestionAnalysis("昨天真累。我真正想问的是，我对什么过敏？", NOW).time_signal is None


def test_sender_names_are_stripped() -> None:
    reading = QuestionAnalysis("What did Caroline say about Melanie's pottery?", NOW)
    assert reading.named_people == ("Caroline", "Melanie")
    assert (
        remove_names("What did Caroline say about Melanie's pottery?", reading.named_people)
        == "What did say about pottery?"
    )


def test_user_text_cannot_add_query_operators() -> None:
    assert build_words_query(["AND", "pot", "NOT"], ['say "it"']) == '"say  it" and pot not'


@given(st.text(max_size=2_000))
def test_arbitrary_text_yields_a_query_within_the_limits(text: str) -> None:
    reading = QuestionAnalysis(text, NOW)
    query = build_words_query(reading.content_words, reading.exact_phrases)
    assert len(query) <= 2_000
    assert 1 <= len(reading.question_sentences) <= 4


@pytest.mark.parametrize(
    "text",
    [
        "我" * 2_000,
        "问题。" + "我其实" * 660,
        "“" * 2_000,
        "《" * 2_000,
        '"' * 2_000,
        "等等，" * 660,
        "我真正想问的是" * 285,
    ],
)
def test_question_parsing_time_is_bounded(text: str) -> None:
    """The limit is several times the usual CPU time; quadratic growth would exceed it by far."""
    begun = time.process_time()
    find_question_sentences(text)
    assert time.process_time() - begun < BRIEF_S
