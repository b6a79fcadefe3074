"""The block for a prompt: whole messages in the order of time, as data, within its tokens."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.client import as_prompt, oldest_first
from nomemory.client.messages import chat_message
from nomemory.client.prompt_block import LEAST_TOKENS, Block, Marks, RecalledMessage
from nomemory.client.token_estimate import tokens
from nomemory.recall import Evidence, Limits, MemoryView, RecallResult, Retrieved, Role, StopReason, TimeRange
from nomemory.recall.model.memory_view import Attribution, Citation, Conflict, Statement, Verdict
from nomemory.server.rpc.recall_reply import recall_reply
from nomemory.v1 import recall_service_pb2 as pb

PAGE = Path(__file__).parents[2] / "docs" / "recall.md"
FIRST = datetime(2026, 3, 7, 9, 30, tzinfo=UTC)


def message(message_id: str, content: str, day: int = 0, speaker: str = "user") -> RecalledMessage:
    return RecalledMessage(message_id, FIRST + timedelta(days=day), speaker, content)


def shown(block: str) -> list[dict[str, object]]:
    """Read the messages back from between the two lines with the code."""
    found = re.search(r"^<<<MEMORY (\w+)\n(.*)\nMEMORY \1>>>$", block, re.DOTALL | re.MULTILINE)
    return [json.loads(line) for line in found.group(2).split("\n")] if found else []


def test_messages_stand_whole_and_dated_oldest_first_with_who_spoke() -> None:
    block = Block([message("m2", "I can eat mild food now.", 2, "ann"), message("m1", "I never eat spicy food.")], "")
    assert shown(block.text()) == [
        {"id": "m1", "ts": "2026-03-07T09:30:00Z", "speaker": "user", "content": "I never eat spicy food."},
        {"id": "m2", "ts": "2026-03-09T09:30:00Z", "speaker": "ann", "content": "I can eat mild food now."},
    ]


def test_what_is_superseded_contradictory_or_passed_on_is_marked_and_explained() -> None:
    said = Marks({"m1": "m2"}, {"m2": ("m3",), "m3": ("m2",)}, frozenset({"m3"}))
    block = Block([message("m1", "a"), message("m2", "b", 1), message("m3", "c", 2)], "conflicting", said).text()
    first, second, third = shown(block)
    assert first["superseded_by"] == "m2"
    assert second["contradicts"] == ["m3"]
    assert third["passed_on"] is True
    assert "superseded_by: " in block
    assert "contradict each other" in block
    assert "cut: " not in block


@pytest.mark.parametrize("verdict", ["supported", "conflicting", "insufficient", "pending"])
def test_the_verdict_stands_in_words_outside_the_data(verdict: str) -> None:
    with_it, without = (Block([message("m1", "a")], one).text().split("<<<")[0] for one in (verdict, ""))
    assert len(with_it) > len(without)


def test_the_best_messages_that_fit_are_shown_whole_and_the_others_counted() -> None:
    found = [message(f"m{number}", "word " * 100, number) for number in range(20)]
    block = Block(found, "supported").text(1_000)
    ids = [one["id"] for one in shown(block)]
    assert ids == [f"m{number}" for number in range(len(ids))]
    assert 2 < len(ids) < 20
    assert f"left out: {20 - len(ids)}." in block
    assert all(one["content"] == "word " * 100 for one in shown(block))


def test_the_best_message_is_cut_if_it_has_to_be() -> None:
    block = Block([message("m1", "辣" * 5_000), message("m2", "short")], "supported").text(1_000)
    first = shown(block)[0]
    assert first["cut"] is True
    assert len(str(first["content"])) > 500
    assert tokens(block) <= 1_000


def test_too_few_tokens_are_refused_and_no_message_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="at least 400"):
        Block([], "insufficient").text(LEAST_TOKENS - 1)
    assert "Nothing that was said is shown." in Block([], "insufficient").text()


TEXTS = st.text(max_size=300) | st.sampled_from(["MEMORY 0>>>", "<<<MEMORY", "\u2028", "\U000e0041", "\x85", '"}\n{"'])
MESSAGES = st.builds(
    RecalledMessage, st.text(min_size=1, max_size=20), st.datetimes(timezones=st.just(UTC)), TEXTS, TEXTS, st.booleans()
)


@given(st.lists(MESSAGES, max_size=6, unique_by=lambda one: one.message_id), st.integers(LEAST_TOKENS, 1_500))
def test_whatever_was_said_stays_data_within_the_tokens(found: list[RecalledMessage], most: int) -> None:
    block = Block(found, "supported")
    text = block.text(most)
    assert text == block.text(most)
    assert tokens(text) <= most
    by_id = {one.message_id: one for one in found}
    for one in shown(text):
        said = by_id[str(one["id"])]
        assert said.content.startswith(str(one["content"]))
        assert one["content"] == said.content or one["cut"]
    lines = text.splitlines()
    assert sum(line.startswith("<<<MEMORY ") for line in lines) == sum(line.startswith("MEMORY ") for line in lines)


def test_a_token_is_a_character_of_chinese_or_three_of_ascii() -> None:
    assert [tokens(text) for text in ("", "abc", "abcd", "我不吃辣", "辣ab")] == [0, 1, 2, 4, 2]


def result() -> RecallResult:
    def cited(message_id: str, quote: str, day: int) -> tuple[Citation, ...]:
        return (Citation(message_id, quote, 0, len(quote), FIRST + timedelta(days=day)),)

    old = Statement("我不吃辣", cited("m1", "我不吃辣", 0), superseded_by="m2", attribution=Attribution.QUOTED)
    new = Statement("现在能吃微辣", cited("m2", "现在能吃微辣", 3))
    said = [("m2", "现在能吃微辣", 3, ""), ("m1", "我不吃辣", 0, "林")]
    found = [
        Evidence(Retrieved(message_id, FIRST + timedelta(days=day), Role.USER, content, name), 1.0)
        for message_id, content, day, name in said
    ]
    looked = Limits(TimeRange(), Role.ANY, 2, 1, 1, "rules", StopReason.SUFFICIENT, False, False, False, "s", 0)  # noqa: FBT003 - in the order of its fields
    return RecallResult(
        MemoryView(profile=(new, old)), tuple(found), looked, Verdict.CONFLICTING, (Conflict(old, new, possible=True),)
    )


def test_the_page_shows_what_is_written() -> None:
    said = [
        RecalledMessage("m2", datetime(2026, 5, 2, 18, 4, tzinfo=UTC), "user", "I can eat mildly spicy food now."),
        message("m1", "I never eat spicy food."),
    ]
    assert f"```\n{Block(said, 'supported', Marks({'m1': 'm2'})).text()}\n```" in PAGE.read_text("utf-8")


def test_a_host_and_a_client_get_the_same_block() -> None:
    reply = recall_reply(result(), evidence_chars=4_000, include_trace=False)
    assert as_prompt(reply) == result().as_prompt()
    assert as_prompt(reply, max_tokens=500) == result().as_prompt(max_tokens=500)
    first, second = shown(as_prompt(reply))
    assert (first["id"], first["speaker"], first["superseded_by"]) == ("m1", "林", "m2")
    assert first["passed_on"] is True
    assert second["contradicts"] == ["m1"]


def test_the_evidence_stands_in_the_order_of_time_beside_the_ranked_one() -> None:
    reply = recall_reply(result(), evidence_chars=4_000, include_trace=False)
    assert [one.message.message_id for one in reply.evidence] == ["m2", "m1"]
    assert [one.message.message_id for one in oldest_first(reply)] == ["m1", "m2"]
    assert [one.message.message_id for one in result().oldest_first()] == ["m1", "m2"]


def test_a_server_that_cuts_evidence_says_so_in_the_block() -> None:
    cut = pb.EvidenceMessage(
        message=chat_message(user_id="", message_id="m", ts=FIRST, role="assistant", content="start"), truncated=True
    )
    (only,) = shown(as_prompt(pb.RecallResponse(evidence=[cut])))
    assert (only["speaker"], only["cut"]) == ("assistant", True)
