"""What a chat model is shown: the best messages that fit, under labels, oldest first, each once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from recall.told import asked

from nomemory.client.prompt_passages import tokens
from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.model.question import Role
from nomemory.recall.reading.prompt import first_text
from nomemory.recall.reading.window import ContextWindow, Line, ReadingBudget

FIRST = datetime(2026, 6, 14, 23, 30, tzinfo=UTC)


def said(number: int, content: str, role: Role = Role.USER, name: str = "") -> Retrieved:
    return Retrieved(f"id-{number}", FIRST + timedelta(minutes=number), role, content, name)


def window(messages: int = 40, tokens_: int = 4_000, asked: str = "Where is the spare key?") -> ContextWindow:
    return ContextWindow(asked, ZoneInfo("Asia/Shanghai"), ReadingBudget(messages, tokens_))


def labels(lines: Sequence[Line]) -> list[object]:
    return [line["id"] for line in lines]


def test_messages_stand_oldest_first_with_weekday_and_speaker_in_the_askers_zone() -> None:
    best, second = said(2, "The spare key is with Ana.", name="Tom"), said(1, "Where did I put it?", Role.ASSISTANT)
    shown = window()
    lines = shown.rank([best, second], {})
    assert lines == [
        {"id": "m2", "said": "Mon 2026-06-15 07:31", "by": "assistant", "text": "Where did I put it?"},
        {"id": "m1", "said": "Mon 2026-06-15 07:32", "by": "Tom", "text": "The spare key is with Ana."},
    ]
    assert [shown.message_id(label) for label in ("m1", " m2 ", "m3", "id-1")] == ["id-2", "id-1", "m3", "id-1"]


def test_what_was_taken_back_names_what_took_it_back_by_its_label() -> None:
    wrong, right = replace(said(1, "The key is with Ana."), retracted_by="id-2"), said(2, "I mixed that up.")
    lines = window().rank([right, wrong], {})
    assert [line.get("taken_back_by") for line in lines] == ["m1", None]
    assert "holds no more" in first_text(asked("Where is the key?"), lines, is_last=False)
    assert "holds no more" not in first_text(asked("Where is the key?"), lines[1:], is_last=False)


def test_what_took_a_message_back_is_not_named_by_its_own_id() -> None:
    (line,) = window().rank([replace(said(1, "The key is with Ana."), retracted_by="<anybody's text>")], {})
    assert line["taken_back_by"] == "a message that is not shown"


def test_pasted_text_is_marked_and_a_short_reply_comes_with_what_it_replies_to() -> None:
    pasted = said(1, "My landlord writes:\n\nThe rent is due on the 3rd.")
    reply = said(2, "both, since March")
    question = said(0, "x" * 500 + "Do you take iron or vitamin D?", Role.ASSISTANT)
    first, second = window().rank([reply, pasted], {"id-2": question})
    assert first["passed_on"] is True
    assert "passed_on" not in second
    assert str(second["replies_to"]).endswith("Do you take iron or vitamin D?")
    assert len(str(second["replies_to"])) == 120


def test_what_does_not_fit_is_left_out_the_likeliest_last() -> None:
    many = [said(number, f"message {number}") for number in range(30)]
    assert labels(window(messages=5).rank(many, {})) == ["m1", "m2", "m3", "m4", "m5"]
    few = window(tokens_=100).rank(many, {})
    assert 1 < len(few) < 6
    assert sum(tokens(json.dumps(line)) for line in few) <= 100


def test_of_many_long_messages_less_is_shown_so_that_all_fit() -> None:
    many = [said(number, f"Key {number}. " + "Some words about the weather. " * 60) for number in range(30)]
    lines = window().rank(many, {})
    assert len(lines) == 30
    assert all("parts" in line for line in lines)
    assert sum(tokens(json.dumps(line)) for line in lines) <= 4_000


def test_what_an_assistant_writes_in_many_lines_is_its_own() -> None:
    (line,) = window().rank([said(1, "Three things:\n\n1. a\n2. b\n3. c\n4. d\n5. e", Role.ASSISTANT)], {})
    assert "passed_on" not in line


def test_what_was_shown_stays_and_is_not_shown_again() -> None:
    shown = window(messages=8)
    shown.rank([said(1, "one"), said(2, "two")], {})
    added = shown.add([[said(2, "two"), said(3, "three")], [said(4, "four"), said(3, "three"), said(5, "five")]])
    assert [line["text"] for line in added] == ["three", "four", "five"]
    assert labels(added) == ["m4", "m3", "m5"]
    assert len(shown) == 5
    assert shown.message_id("m2") == "id-2"
    assert len(shown.add([[said(number, "more") for number in range(10, 30)]])) == 4


def test_of_a_long_message_the_passages_that_matter_are_shown() -> None:
    long = "Some words about the weather. " * 60 + "The spare key hangs behind the boiler. " + "And so on. " * 200
    (line,) = window().rank([said(1, long)], {})
    parts = line["parts"]
    assert isinstance(parts, list)
    assert "text" not in line
    assert any("behind the boiler" in str(part) for part in parts)
    assert all(str(part) in long for part in parts)
    assert sum(tokens(str(part)) for part in parts) <= 250


def test_a_message_that_was_shown_in_parts_is_shown_again_under_its_label_if_it_is_asked_for() -> None:
    long = said(1, "Some words about the weather. " * 60)
    shown = window()
    shown.rank([long], {})
    assert shown.add([[long]]) == []
    (line,) = shown.add([[long]], {"id-1"})
    assert (line["id"], line["text"]) == ("m1", long.content)
    assert shown.add([[long]], {"id-1"}) == []
    assert len(shown) == 1
