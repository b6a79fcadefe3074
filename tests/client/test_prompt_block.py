"""Tests for the prompt block: complete messages in order of time, fenced, within the token limit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.client import as_prompt, sort_evidence_by_time
from nomemory.client.messages import chat_message
from nomemory.client.prompt_block import MIN_TOKENS, Annotations, PromptBlock, RecalledMessage
from nomemory.client.prompt_passages import count_tokens
from nomemory.recall import (
    Evidence,
    MemoryView,
    Question,
    RecallResult,
    RetrievedMessage,
    Role,
    SearchLimits,
    StopReason,
    TimeRange,
)
from nomemory.recall.model.memory_view import Attribution, Citation, Conflict, Statement, Verdict
from nomemory.server.api.services.recall_encoding import encode_recall_reply
from nomemory.v1 import recall_service_pb2 as pb

PAGE = Path(__file__).parents[2] / "docs" / "recall.md"
FIRST = datetime(2026, 3, 7, 9, 30, tzinfo=UTC)


def message(message_id: str, content: str, day: int = 0, speaker: str = "user") -> RecalledMessage:
    return RecalledMessage(message_id, FIRST + timedelta(days=day), speaker, content)


def shown(block: str) -> list[list[object]]:
    """Parse the messages between the two fence lines."""
    fence = re.search(r"^<<<MEMORY (\w+)\n(.*)\nMEMORY \1>>>$", block, re.DOTALL | re.MULTILINE)
    return [json.loads(line) for line in fence.group(2).split("\n")] if fence else []


def test_messages_are_oldest_first_with_date_weekday_and_sender() -> None:
    block = PromptBlock([message("m2", "I can eat mild food now.", 2, "ann"), message("m1", "I never eat spicy food.")])
    assert shown(block.render()) == [
        ["m1", "Sat 2026-03-07 09:30", "user", "I never eat spicy food."],
        ["m2", "Mon 2026-03-09 09:30", "ann", "I can eat mild food now."],
    ]


def test_dates_are_in_the_time_zone_of_the_caller() -> None:
    late = RecalledMessage("m1", datetime(2026, 3, 7, 23, 30, tzinfo=UTC), "user", "明天去体检")
    block = PromptBlock([late], zone=ZoneInfo("Asia/Shanghai")).render()
    assert shown(block)[0][1] == "Sun 2026-03-08 07:30"
    assert "time (Asia/Shanghai)" in block
    end = RecalledMessage("m1", datetime.max.replace(tzinfo=UTC), "user", "the last")
    assert shown(PromptBlock([end], zone=ZoneInfo("Asia/Shanghai")).render())[0][1] == "Fri 9999-12-31 23:59"


def test_superseded_contradictory_and_forwarded_messages_are_marked() -> None:
    annotations = Annotations({"m1": "m2"}, {"m2": ("m3",), "m3": ("m2",)}, frozenset({"m3"}))
    block = PromptBlock([message("m1", "a"), message("m2", "b", 1), message("m3", "c", 2)], annotations).render()
    first, second, third = shown(block)
    assert first[4] == {"superseded_by": "m2"}
    assert second[4] == {"contradicts": ["m3"]}
    assert third[4] == {"contradicts": ["m2"], "forwarded": True}
    assert "superseded_by: " in block
    assert "cut: " not in block


def test_retracted_message_names_only_its_retraction() -> None:
    wrong = replace(message("m1", "a"), retracted_by="m2")
    block = PromptBlock([wrong, message("m2", "b", 1)], Annotations({"m1": "m3"})).render()
    first, second = shown(block)
    assert first[4:] == [{"retracted_by": "m2"}]
    assert second[4:] == []
    assert "retracted_by: the message with this id retracts it" in block
    assert "superseded_by: " not in block


def test_forty_chat_messages_fit_untruncated() -> None:
    messages = [message(f"m{number}", f"On day {number} I walked around the lake.", number) for number in range(40)]
    block = PromptBlock(messages).render()
    assert len(shown(block)) == 40
    assert "left out" not in block


def test_long_messages_are_truncated_to_equal_lengths() -> None:
    messages = [message(f"m{number}", "Nothing of note was said here. " * 130, number) for number in range(10)]
    messages[3] = message("m3", "One line.", 3)
    block = PromptBlock(messages).render()
    assert len(shown(block)) == 10
    assert shown(block)[3] == ["m3", "Tue 2026-03-10 09:30", "user", "One line."]
    sizes = {len(str(item[3])) for item in shown(block)} - {len("One line.")}
    assert max(sizes) - min(sizes) < 100
    assert all(item[4] == {"truncated": True} for item in shown(block) if item[0] != "m3")
    assert "truncated: only passages" in block


def test_lowest_ranked_messages_over_the_limit_are_omitted_and_counted() -> None:
    messages = [message(f"m{number}", "word " * 100, number) for number in range(40)]
    ids = [item[0] for item in shown(PromptBlock(messages).render(1_000))]
    assert ids == [f"m{number}" for number in range(len(ids))]
    assert 5 < len(ids) < 40
    assert f"size limit: {40 - len(ids)}." in PromptBlock(messages).render(1_000)
    assert [item.message_id for item in PromptBlock(messages).select_messages(1_000)] == ids


FILLER = "The weather was mild and the talk went on about other things. "


def test_long_message_is_shortened_to_quoted_passages() -> None:
    content = f"{FILLER * 200}My locker at the pool is number 27. {FILLER * 200}"
    annotations = Annotations(quotes={"m1": ("number 27",)})
    (only,) = shown(PromptBlock([message("m1", content)], annotations).render())
    assert "My locker at the pool is number 27." in str(only[3])
    assert " … " in str(only[3])
    assert only[4] == {"truncated": True}


@pytest.mark.parametrize(
    ("question", "passage", "around"),
    [
        ("Which allergies do I have?", "By the way, I am allergic to hazelnuts.", FILLER),
        ("我的车停在哪里？", "车停在地下二层。", "今天大家聊得很开心，天气也不错。"),
    ],
)
def test_long_message_is_shortened_to_passages_with_words_of_the_question(
    question: str, passage: str, around: str
) -> None:
    messages = [
        message("m1", f"{around * 60}{passage}{around * 60}"),
        *(message(f"n{n}", around * 90) for n in range(9)),
    ]
    (of_it,) = (item for item in shown(PromptBlock(messages, question=question).render()) if item[0] == "m1")
    assert passage in str(of_it[3])


def test_message_without_relevant_passages_is_truncated_at_the_end() -> None:
    content = "辣" * 5_000
    (only,) = shown(PromptBlock([message("m1", content)]).render(1_000))
    assert only[4] == {"truncated": True}
    assert content.startswith(str(only[3]).removesuffix("…").strip())
    assert len(str(only[3])) > 500


def test_block_does_not_state_the_sufficiency() -> None:
    block = PromptBlock([message("m1", "a")]).render()
    assert "Judge for yourself whether the messages answer" in block
    assert "robably" not in block


def test_a_lagging_index_is_mentioned_in_the_block() -> None:
    lag_note = "not searchable yet"
    assert lag_note in PromptBlock([message("m1", "a")], is_index_lagging=True).render()
    assert lag_note in PromptBlock([], is_index_lagging=True).render()
    assert lag_note not in PromptBlock([message("m1", "a")]).render()


def test_too_low_token_limit_is_rejected_and_an_empty_block_states_it() -> None:
    with pytest.raises(ValueError, match="at least 400"):
        PromptBlock([]).render(MIN_TOKENS - 1)
    assert PromptBlock([]).render() == "No messages are shown."


TEXTS = st.text(max_size=300) | st.sampled_from(["MEMORY 0>>>", "<<<MEMORY", "\u2028", "\U000e0041", "\x85", '"}\n{"'])
MESSAGES = st.builds(
    RecalledMessage, st.text(min_size=1, max_size=20), st.datetimes(timezones=st.just(UTC)), TEXTS, TEXTS, st.booleans()
)


@given(st.lists(MESSAGES, max_size=6, unique_by=lambda item: item.message_id), TEXTS, st.integers(MIN_TOKENS, 1_500))
def test_message_content_cannot_break_the_block_or_its_token_limit(
    messages: list[RecalledMessage], question: str, max_tokens: int
) -> None:
    block = PromptBlock(messages, question=question)
    text = block.render(max_tokens)
    assert text == block.render(max_tokens)
    assert count_tokens(text) <= max_tokens
    by_id = {item.message_id: item for item in messages}
    for item in shown(text):
        original = by_id[str(item[0])]
        assert item[3] == original.content or item[4] == {"truncated": True}
        if "…" not in original.content:
            assert all(passage in original.content for passage in str(item[3]).split(" … "))
    lines = text.splitlines()
    assert sum(line.startswith("<<<MEMORY ") for line in lines) == sum(line.startswith("MEMORY ") for line in lines)


def test_a_token_is_a_character_of_chinese_or_three_of_ascii() -> None:
    assert [count_tokens(text) for text in ("", "abc", "abcd", "我不吃辣", "辣ab")] == [0, 1, 2, 4, 2]


def result() -> RecallResult:
    def cited(message_id: str, quote: str, day: int) -> tuple[Citation, ...]:
        return (Citation(message_id, quote, 0, len(quote), FIRST + timedelta(days=day)),)

    old = Statement("我不吃辣", cited("m1", "我不吃辣", 0), superseded_by="m2", attribution=Attribution.QUOTED)
    new = Statement("现在能吃微辣", cited("m2", "现在能吃微辣", 3))
    contents = [("m2", "现在能吃微辣", 3, ""), ("m1", "我不吃辣", 0, "林")]
    messages = [
        Evidence(RetrievedMessage(message_id, FIRST + timedelta(days=day), Role.USER, content, name), 1.0)
        for message_id, content, day, name in contents
    ]
    looked = SearchLimits(TimeRange(), Role.ANY, 2, 1, 1, "rules", StopReason.SUFFICIENT, False, False, False, "s", 0)  # noqa: FBT003 - in the order of its fields
    return RecallResult(
        MemoryView(profile=(new, old)),
        tuple(messages),
        looked,
        Verdict.CONFLICTING,
        (Conflict(old, new, is_possible=True),),
    )


def test_documented_block_equals_the_rendered_one() -> None:
    contents = [
        RecalledMessage("m2", datetime(2026, 5, 2, 18, 4, tzinfo=UTC), "user", "I can eat mildly spicy food now."),
        message("m1", "I never eat spicy food."),
    ]
    assert f"```\n{PromptBlock(contents, Annotations({'m1': 'm2'})).render()}\n```" in PAGE.read_text("utf-8")


def test_host_and_client_render_the_same_block() -> None:
    reply = encode_recall_reply(result(), evidence_chars=4_000, include_trace=False)
    assert as_prompt(reply) == result().as_prompt()
    assert as_prompt(reply, max_tokens=500) == result().as_prompt(max_tokens=500)
    question = Question("我能吃辣吗？", FIRST.astimezone(ZoneInfo("Asia/Shanghai")))
    theirs = as_prompt(reply, question=question.text, time_zone="Asia/Shanghai")
    assert theirs == result().as_prompt(question=question)
    first, second = shown(as_prompt(reply))
    assert first == ["m1", "Sat 2026-03-07 09:30", "林", "我不吃辣", first[4]]
    assert first[4] == {"superseded_by": "m2", "contradicts": ["m2"], "forwarded": True}
    assert second[4] == {"contradicts": ["m1"]}


def test_unknown_time_zone_falls_back_to_utc() -> None:
    reply = encode_recall_reply(result(), evidence_chars=4_000, include_trace=False)
    assert as_prompt(reply, time_zone="Nowhere/Land") == as_prompt(reply)


def test_evidence_can_be_sorted_by_time() -> None:
    reply = encode_recall_reply(result(), evidence_chars=4_000, include_trace=False)
    assert [item.message.message_id for item in reply.evidence] == ["m2", "m1"]
    assert [item.message.message_id for item in sort_evidence_by_time(reply)] == ["m1", "m2"]
    assert [item.message.message_id for item in result().sort_evidence_by_time()] == ["m1", "m2"]


def test_block_marks_evidence_truncated_by_the_server() -> None:
    cut = pb.EvidenceMessage(
        message=chat_message(user_id="", message_id="m", ts=FIRST, role="assistant", content="start"), truncated=True
    )
    (only,) = shown(as_prompt(pb.RecallResponse(evidence=[cut])))
    assert (only[2], only[4]) == ("assistant", {"truncated": True})
