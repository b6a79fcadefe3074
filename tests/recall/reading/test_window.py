"""Tests for the messages in a prompt: selection, labels, order and deduplication."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from recall.retrieved_messages import new_question

from nomemory.client.prompt_passages import count_tokens
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.question import Role
from nomemory.recall.model.sufficiency import Sufficiency
from nomemory.recall.reading.prompt import build_first_prompt, group_messages_by_day
from nomemory.recall.reading.prompt_context import ContextWindow, Line, ReadingBudget, ReplyContext

NONE = ReplyContext()
FIRST = datetime(2026, 6, 14, 23, 30, tzinfo=UTC)


def new_message(number: int, content: str, role: Role = Role.USER, name: str = "") -> RetrievedMessage:
    return RetrievedMessage(f"id-{number}", FIRST + timedelta(minutes=number), role, content, name)


def window(messages: int = 40, tokens_: int = 4_000, question: str = "Where is the spare key?") -> ContextWindow:
    return ContextWindow(question, ZoneInfo("Asia/Shanghai"), ReadingBudget(messages, tokens_))


def labels(lines: Sequence[Line]) -> list[object]:
    return [line["id"] for line in lines]


def test_messages_are_oldest_first_with_sender_and_local_weekday() -> None:
    best, second = (
        new_message(2, "The spare key is with Ana.", name="Tom"),
        new_message(1, "Where did I put it?", Role.ASSISTANT),
    )
    shown = window()
    lines = shown.add_ranking([best, second], NONE)
    assert lines == [
        {"id": "m2", "said": "Mon 2026-06-15 07:31", "by": "assistant", "text": "Where did I put it?"},
        {"id": "m1", "said": "Mon 2026-06-15 07:32", "by": "Tom", "text": "The spare key is with Ana."},
    ]
    assert [shown.resolve_label(label) for label in ("m1", " m2 ", "m3", "id-1")] == ["id-2", "id-1", "m3", "id-1"]


def test_retracted_message_names_its_retraction_by_label() -> None:
    wrong, right = (
        replace(new_message(1, "The key is with Ana."), retracted_by="id-2"),
        new_message(2, "I mixed that up."),
    )
    lines = window().add_ranking([right, wrong], NONE)
    assert [line.get("taken_back_by") for line in lines] == ["m1", None]
    assert "holds no more" in build_first_prompt(new_question("Where is the key?"), lines, 1)
    assert "holds no more" not in build_first_prompt(new_question("Where is the key?"), lines[1:], 1)


def test_an_unshown_retraction_is_not_named_by_its_id() -> None:
    (line,) = window().add_ranking(
        [replace(new_message(1, "The key is with Ana."), retracted_by="<anybody's text>")], NONE
    )
    assert line["taken_back_by"] == "a message that is not shown"


def test_pasted_text_is_a_marked_span_with_its_introduction() -> None:
    mail = new_message(1, "Look. My landlord writes: the rent is due on the 3rd of June.\n\nWhat shall I do?")
    (line,) = window().add_ranking([mail], NONE)
    assert line["passed_on"] == [
        {"after": "My landlord writes", "begins": "the rent is due on", "ends": "n the 3rd of June."}
    ]
    assert line["text"] == mail.content


def test_short_reply_names_and_shows_the_message_it_answers() -> None:
    reply = new_message(2, "both, since March")
    question = new_message(1, "x" * 90 + ". Do you take iron or vitamin D?", Role.ASSISTANT)
    other = new_message(9, "The key is with Ana.")
    lines = window().add_ranking([reply, other], ReplyContext({"id-2": question}))
    assert [(line["id"], line.get("replies_to")) for line in lines] == [("m3", None), ("m1", "m3"), ("m2", None)]


def test_short_reply_includes_the_last_sentences_of_an_oversized_original() -> None:
    reply, question = (
        new_message(2, "both, since March"),
        new_message(1, "x" * 500 + ". Do you take iron or vitamin D?", Role.ASSISTANT),
    )
    (line,) = window(tokens_=70).add_ranking([reply], ReplyContext({"id-2": question}))
    assert line["replies_to"] == "Do you take iron or vitamin D?"


def test_shown_question_is_followed_by_its_reply() -> None:
    question, reply = new_message(1, "Where is the key?"), new_message(2, "With Ana, in the blue tin.", Role.ASSISTANT)
    lines = window().add_ranking([question], ReplyContext({}, {"id-1": reply}))
    assert [line["text"] for line in lines] == [question.content, reply.content]


def test_first_messages_are_shown_completely() -> None:
    long = [new_message(number, f"Key {number}. " + "Some words about the weather. " * 12) for number in range(20)]
    lines = window().add_ranking(long, NONE)
    assert {line["id"] for line in lines if "text" in line} >= {"m1", "m2", "m3", "m4", "m5", "m6"}


def test_more_messages_are_shown_if_they_are_short() -> None:
    short = [new_message(number, f"message {number}") for number in range(120)]
    assert len(window(messages=100).add_ranking(short, NONE)) == 100


def test_messages_are_grouped_by_day_and_conversation() -> None:
    first, second, later = (
        replace(new_message(number, f"message {number}"), conversation_id=talk)
        for number, talk in ((1, "a"), (2, "a"), (2_000, "b"))
    )
    lines = list(group_messages_by_day(window().add_ranking([later, first, second], NONE)))
    assert [line for line in lines if "day" in line] == [
        {"day": "Mon 2026-06-15", "conversation": "c2"},
        {"day": "Tue 2026-06-16"},
    ]
    assert [(line["id"], line["at"]) for line in lines if "id" in line] == [
        ("m2", "07:31"),
        ("m3", "07:32"),
        ("m1", "16:50"),
    ]


def test_prompt_states_remaining_rounds_and_weak_matches() -> None:
    lines = window().add_ranking([new_message(1, "The key is with Ana.")], NONE)
    question = new_question("Where is the key?")
    assert "You may look up once more" in build_first_prompt(question, lines, 1)
    assert "You may look up in 2 more rounds" in build_first_prompt(question, lines, 2)
    assert "last answer" in build_first_prompt(question, lines, 0)
    assert "Nothing matches" in build_first_prompt(question, lines, 1, Sufficiency(0.1, speaker_matched=False))
    assert "Nothing matches" not in build_first_prompt(question, lines, 1, Sufficiency(0.6, speaker_matched=False))


def test_lowest_ranked_messages_over_the_limit_are_omitted() -> None:
    many = [new_message(number, f"message {number}") for number in range(30)]
    assert labels(window(messages=5).add_ranking(many, NONE)) == ["m1", "m2", "m3", "m4", "m5"]
    few = window(tokens_=100).add_ranking(many, NONE)
    assert 1 < len(few) < 6
    assert sum(count_tokens(json.dumps(line)) for line in few) <= 100


def test_many_long_messages_are_shortened_to_fit() -> None:
    many = [new_message(number, f"Key {number}. " + "Some words about the weather. " * 60) for number in range(30)]
    lines = window().add_ranking(many, NONE)
    assert len(lines) == 30
    assert all("parts" in line for line in lines)
    assert sum(count_tokens(json.dumps(line)) for line in lines) <= 4_000


def test_a_multi_line_assistant_message_is_not_marked_as_forwarded() -> None:
    (line,) = window().add_ranking(
        [new_message(1, "Three things:\n\n1. a\n2. b\n3. c\n4. d\n5. e", Role.ASSISTANT)], NONE
    )
    assert "passed_on" not in line


def test_shown_messages_keep_their_labels_and_are_not_repeated() -> None:
    shown = window(messages=8)
    shown.add_ranking([new_message(1, "one"), new_message(2, "two")], NONE)
    added = shown.add_results(
        [
            [new_message(2, "two"), new_message(3, "three")],
            [new_message(4, "four"), new_message(3, "three"), new_message(5, "five")],
        ]
    )
    assert [line["text"] for line in added] == ["three", "four", "five"]
    assert labels(added) == ["m4", "m3", "m5"]
    assert len(shown) == 5
    assert shown.resolve_label("m2") == "id-2"
    assert len(shown.add_results([[new_message(number, "more") for number in range(10, 30)]])) == 4


def test_long_message_is_shortened_to_relevant_passages() -> None:
    long = "Some words about the weather. " * 60 + "The spare key hangs behind the boiler. " + "And so on. " * 900
    (line,) = window().add_ranking([new_message(1, long)], NONE)
    parts = line["parts"]
    assert isinstance(parts, list)
    assert "text" not in line
    assert any("The spare key hangs behind the boiler." in str(part) for part in parts)
    assert all(str(part) in long for part in parts)
    assert sum(count_tokens(str(part)) for part in parts) <= 1_200


def test_requested_message_is_shown_completely_under_its_label() -> None:
    long = new_message(1, "Some words about the weather. " * 150)
    shown = window()
    shown.add_ranking([long], NONE)
    assert shown.add_results([[long]]) == []
    (line,) = shown.add_results([[long]], {"id-1"})
    assert (line["id"], line["text"]) == ("m1", long.content)
    assert shown.add_results([[long]], {"id-1"}) == []
    assert len(shown) == 1


def test_message_of_the_first_year_is_shown_in_any_time_zone() -> None:
    first = replace(new_message(1, "The spare key is with Ana."), ts=datetime(1, 1, 1, tzinfo=UTC))
    lines = ContextWindow("Where?", ZoneInfo("America/New_York"), ReadingBudget(40, 4_000)).add_ranking([first], NONE)
    assert lines[0]["said"] == "Mon 0001-01-01 00:00"
