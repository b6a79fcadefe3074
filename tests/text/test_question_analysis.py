"""Tests for the analysis of Chinese and English questions."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cached_property

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.time_expressions import TimePrecision

NOW = datetime(2026, 3, 14, 10, tzinfo=UTC)  # a Saturday
BRIEF_S = 0.5
PARTS = [name for name, part in vars(QuestionAnalysis).items() if isinstance(part, cached_property)]


def read(text: str) -> QuestionAnalysis:
    return QuestionAnalysis(text, NOW)


def everything(reading: QuestionAnalysis) -> dict[str, object]:
    return {part: getattr(reading, part) for part in PARTS}


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("今天好累。我对什么过敏？", ("我对什么过敏？",)),
        ("Nice day! When is my exam? Also, who comes?", ("When is my exam?", "Also, who comes?")),
        ("中午吃什么？不对，我真正想问的是，我的体检是哪天？", ("我的体检是哪天？",)),
        ("Is it late? What I really want to know is where do I live?", ("where do I live?",)),
        ("just words", ("just words",)),
    ],
)
def test_question_sentences_are_separated_from_small_talk(text: str, sentences: tuple[str, ...]) -> None:
    assert read(text).question_sentences == sentences
    assert read(text).question_text == " ".join(sentences)


def test_text_without_a_question_is_recognized() -> None:
    assert read("我对什么过敏").contains_question
    assert read("What now?").contains_question
    assert not read("清汤锅").contains_question
    assert not read("just words").contains_question


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("你还记得我在哪里工作吗？", ("在", "工作")),
        ("Do you remember what my brother is called?", ("brother", "called")),
    ],
)
def test_content_words_exclude_question_words(text: str, words: tuple[str, ...]) -> None:
    assert read(text).content_words == words


def test_quoted_and_reported_speech_becomes_phrases() -> None:
    assert read("我说过“清汤锅”吗？").exact_phrases == ("清汤锅",)
    assert read("Did I ever say that I was vegetarian?").exact_phrases == ("vegetarian",)


def test_names_are_recognized_by_english_grammar() -> None:
    assert read("What did Caroline say about Melanie's pottery?").named_people == ("Caroline", "Melanie")
    assert read("What is Your view?").named_people == ()


def test_relative_times_are_resolved_from_the_question_time() -> None:
    signal = read("我上周说了什么？").time_signal
    assert signal is not None
    assert (signal.expression, signal.precision) == ("上周", TimePrecision.EXACT)
    assert signal.time_range.since == datetime(2026, 3, 2, tzinfo=UTC)
    assert signal.time_range.until == datetime(2026, 3, 9, tzinfo=UTC)


def test_time_in_small_talk_or_a_quotation_is_ignored() -> None:
    assert read("昨天真累。我真正想问的是，我对什么过敏？").time_signal is None
    assert read("Who wrote “Yesterday”?").time_signal is None


def test_times_are_ignored_without_a_question_time() -> None:
    assert QuestionAnalysis("What did I say yesterday?").time_signal is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("When is my exam?", {"asks_for_time"}),
        ("我的体检是几号？", {"asks_for_time"}),
        ("How long was the trip?", {"asks_for_time"}),
        ("我去了多久？", {"asks_for_time"}),
        ("How many cats do I have?", set()),
        ("What did you promise?", {"asks_about_assistant"}),
        ("你答应过什么？", {"asks_about_assistant"}),
        ("Which tent did you explain to Ann?", {"asks_about_assistant"}),
        ("Who plays the cello?", set()),
    ],
)
def test_the_kind_of_the_requested_answer_is_recognized(text: str, parts: set[str]) -> None:
    kinds = {part for part in PARTS if part.startswith(("asks_for_", "asks_about_assistant"))}
    assert {part for part in kinds if getattr(read(text), part)} == parts


@pytest.mark.parametrize(
    ("text", "anywhere", "where_it_asks"),
    [
        ("What do I like?", True, True),
        ("我喜欢什么？", True, True),
        ("I am tired! Who is Ann?", True, False),
        ("我累了。安娜是谁？", True, False),
        ("What does the US export?", False, False),
    ],
)
def test_first_person_questions_are_recognized(text: str, *, anywhere: bool, where_it_asks: bool) -> None:
    assert (read(text).has_first_person, read(text).asks_in_first_person) == (anywhere, where_it_asks)


@given(st.text(max_size=2_000), st.none() | st.just(NOW))
def test_arbitrary_text_is_parsed_deterministically(text: str, now: datetime | None) -> None:
    reading = QuestionAnalysis(text, now)
    assert everything(reading) == everything(QuestionAnalysis(text, now))
    assert 1 <= len(reading.question_sentences) <= 4


@pytest.mark.parametrize(
    "unit", ["我", "问题。我其实", "“", "《", '"', "等等，", "我真正想问的是", "What did I say, ", "8月3号"]
)
def test_question_parsing_time_is_bounded(unit: str) -> None:
    """The limit is several times the usual CPU time; quadratic growth would exceed it by far."""
    text = (unit * 2_000)[:2_000]
    begun = time.process_time()
    everything(read(text))
    assert time.process_time() - begun < BRIEF_S


def test_question_analysis_is_immutable() -> None:
    with pytest.raises(AttributeError):
        read("What?").text = "When?"  # type: ignore[misc]  # that it is refused is what is tested
