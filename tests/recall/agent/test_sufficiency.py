"""How likely the log answers: it reaches the limits, and decides the verdict from the host's operating points on."""

from __future__ import annotations

from datetime import UTC, datetime

import grpc
import pytest
from recall.agent.scripted_query import ScriptedQuery

from nomemory.recall.api import recall
from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.v1.message_pb2 import ChatMessage
from talk import said

NOW = datetime(2026, 3, 14, 2, tzinfo=UTC)
QUESTION = Question("What does Ann do on Sundays, paint?", NOW)
TALK = [said("lin", "m1", "I paint on Sundays, I love to paint.", 1, name="Ann")]
UNNAMED = [said("lin", "m1", "I paint on Sundays, I love to paint.", 1)]


async def answered(sufficiency: float, stub: ScriptedQuery | None = None) -> RecallResult:
    return await recall(stub or ScriptedQuery(TALK, sufficiency=sufficiency), "lin", QUESTION)


@pytest.mark.parametrize(
    ("messages", "speaker_matched", "failing", "supported"),
    [
        (TALK, True, {}, 0.5),
        (TALK, False, {}, 0.45),
        (UNNAMED, False, {}, 0.554),
        (UNNAMED, False, {"SemanticSearch": grpc.StatusCode.FAILED_PRECONDITION}, 0.75),
    ],
    ids=["speaker-matched", "named", "unnamed", "lexical-only"],
)
async def test_each_kind_of_talk_is_supported_from_a_calibrated_probability_of_one_half(
    messages: list[ChatMessage],
    failing: dict[str, grpc.StatusCode],
    supported: float,
    *,
    speaker_matched: bool,
) -> None:
    for sufficiency, verdict in ((supported + 0.01, Verdict.SUPPORTED), (supported - 0.01, Verdict.POSSIBLE)):
        stub = ScriptedQuery(messages, failing, sufficiency=sufficiency, speaker_matched=speaker_matched)
        result = await answered(sufficiency, stub)
        assert result.verdict is verdict
        assert [statement.text for statement in result.memory_view.statements()] == [
            "I paint on Sundays, I love to paint."
        ]


async def test_an_insufficient_view_is_empty_and_the_evidence_has_the_nearest_messages() -> None:
    result = await answered(0.05)
    assert result.verdict is Verdict.INSUFFICIENT
    assert not list(result.memory_view.statements())
    assert [item.message.message_id for item in result.evidence] == ["m1"]


@pytest.mark.parametrize(("sufficiency", "reason"), [(0.4, "may answer"), (0.75, "probably answer")])
async def test_the_limits_contain_the_estimate_and_the_reason(sufficiency: float, reason: str) -> None:
    limits = (await answered(sufficiency)).limits
    assert limits.enough == 0.5
    assert limits.notes[-1].text.startswith(f"the quotes {reason}: an estimate of {limits.sufficiency:.2f}")
    assert limits.notes[-1].text.isascii()


async def test_a_log_without_a_word_of_it_has_none_either() -> None:
    assert (await recall(ScriptedQuery(), "lin", QUESTION)).limits.sufficiency is None
