"""Tests for the sufficiency estimate in the limits and for the verdict by thresholds."""

from __future__ import annotations

from datetime import UTC, datetime

import grpc
import pytest
from recall.agent.scripted_query import ScriptedQuery

from chat_messages import new_message
from nomemory.recall.api import recall
from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import SufficiencyThresholds
from nomemory.v1.message_pb2 import ChatMessage

NOW = datetime(2026, 3, 14, 2, tzinfo=UTC)
QUESTION = Question("What does Ann do on Sundays, paint?", NOW)
TALK = [new_message("lin", "m1", "I paint on Sundays, I love to paint.", 1, name="Ann")]
UNNAMED = [new_message("lin", "m1", "I paint on Sundays, I love to paint.", 1)]
RULE = SufficiencyThresholds(supported=0.5, possible=0.3)


async def answered(sufficiency: float, messages: list[ChatMessage], *, speaker_matched: bool = False) -> RecallResult:
    stub = ScriptedQuery(messages, {}, sufficiency=sufficiency, speaker_matched=speaker_matched)
    return await recall(stub, "lin", QUESTION, thresholds=RULE)


@pytest.mark.parametrize(
    ("messages", "speaker_matched", "sufficiency", "verdict"),
    [
        (TALK, True, 0.51, Verdict.SUPPORTED),
        (TALK, True, 0.49, Verdict.POSSIBLE),
        (TALK, True, 0.29, Verdict.INSUFFICIENT),
        (TALK, False, 0.51, Verdict.SUPPORTED),
        (TALK, False, 0.49, Verdict.POSSIBLE),
        (UNNAMED, False, 0.51, Verdict.SUPPORTED),
        (UNNAMED, False, 0.49, Verdict.POSSIBLE),
        (UNNAMED, False, 0.29, Verdict.INSUFFICIENT),
    ],
)
async def test_verdict_follows_the_estimated_sufficiency(
    messages: list[ChatMessage], sufficiency: float, verdict: Verdict, *, speaker_matched: bool
) -> None:
    assert (await answered(sufficiency, messages, speaker_matched=speaker_matched)).verdict is verdict


async def test_lexical_only_ranking_requires_a_higher_sufficiency() -> None:
    failing = {"SemanticSearch": grpc.StatusCode.FAILED_PRECONDITION}
    for sufficiency, verdict in ((0.76, Verdict.SUPPORTED), (0.74, Verdict.POSSIBLE)):
        stub = ScriptedQuery(UNNAMED, failing, sufficiency=sufficiency)
        assert (await recall(stub, "lin", QUESTION, thresholds=RULE)).verdict is verdict


async def test_unanswered_question_has_an_empty_view_and_the_nearest_messages() -> None:
    result = await answered(0.01, UNNAMED)
    assert result.memory_view.list_statements() == ()
    assert result.conflicts == ()
    assert [item.message.message_id for item in result.evidence] == ["m1"]


async def test_possible_answer_has_quotes() -> None:
    result = await answered(0.44, TALK)
    assert [statement.text for statement in result.memory_view.list_statements()] == [
        "I paint on Sundays, I love to paint."
    ]


@pytest.mark.parametrize(
    ("sufficiency", "reason"),
    [
        (0.9, "the quotes probably answer the question"),
        (0.4, "the quotes may answer the question"),
        (0.1, "the messages probably do not answer the question"),
    ],
)
async def test_limits_report_sufficiency_threshold_and_reason(sufficiency: float, reason: str) -> None:
    limits = (await answered(sufficiency, TALK, speaker_matched=True)).limits
    assert limits.sufficiency == pytest.approx(sufficiency)
    assert limits.sufficiency_threshold == 0.5
    assert limits.notes[-1].text == f"{reason}: estimated probability {sufficiency:.2f}, threshold 0.50"


async def test_sufficiency_is_unset_without_results() -> None:
    assert (await recall(ScriptedQuery(), "lin", QUESTION)).limits.sufficiency is None
