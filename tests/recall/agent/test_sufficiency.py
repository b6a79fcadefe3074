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
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.v1.message_pb2 import ChatMessage
from talk import said

NOW = datetime(2026, 3, 14, 2, tzinfo=UTC)
QUESTION = Question("What does Ann do on Sundays, paint?", NOW)
TALK = [said("lin", "m1", "I paint on Sundays, I love to paint.", 1, name="Ann")]
UNNAMED = [said("lin", "m1", "I paint on Sundays, I love to paint.", 1)]
RULE = EnoughRule(speaker_matched=0.5, named=0.6, unnamed=0.2, semantic_unavailable=0.8)


async def answered(sufficiency: float, stub: ScriptedQuery | None = None, rule: EnoughRule = RULE) -> RecallResult:
    return await recall(stub or ScriptedQuery(TALK, sufficiency=sufficiency), "lin", QUESTION, rule=rule)


@pytest.mark.parametrize("enough", [True, False])
@pytest.mark.parametrize(
    ("messages", "speaker_matched", "failing", "least"),
    [
        (TALK, True, {}, 0.5),
        (TALK, False, {}, 0.6),
        (UNNAMED, False, {}, 0.2),
        (UNNAMED, False, {"SemanticSearch": grpc.StatusCode.FAILED_PRECONDITION}, 0.8),
    ],
    ids=["told-apart", "named", "unnamed", "words-only"],
)
async def test_the_operating_points_decide_and_the_view_stays(
    messages: list[ChatMessage],
    failing: dict[str, grpc.StatusCode],
    least: float,
    *,
    speaker_matched: bool,
    enough: bool,
) -> None:
    sufficiency = least + (0.01 if enough else -0.01)
    stub = ScriptedQuery(messages, failing, sufficiency=sufficiency, speaker_matched=speaker_matched)
    result = await answered(sufficiency, stub)
    assert (result.verdict is Verdict.SUPPORTED) is enough
    assert [one.text for one in result.memory_view.statements()] == ["I paint on Sundays, I love to paint."]


@pytest.mark.parametrize(("sufficiency", "said"), [(0.25, "probably do not answer"), (0.75, "probably answer")])
async def test_the_limits_have_it_and_say_why(sufficiency: float, said: str) -> None:
    limits = (await answered(sufficiency)).limits
    assert (limits.sufficiency, limits.enough) == (sufficiency, 0.6)
    assert limits.notes[-1].text == f"the quotes {said}: an estimate of {sufficiency}, where 0.60 is enough"
    assert limits.notes[-1].text.isascii()


async def test_a_log_without_a_word_of_it_has_none_either() -> None:
    assert (await recall(ScriptedQuery(), "lin", QUESTION)).limits.sufficiency is None
