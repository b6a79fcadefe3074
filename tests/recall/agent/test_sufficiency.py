"""How likely the log answers: it reaches the limits, and decides the verdict from the host's operating points on."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from recall.agent.scripted_query import ScriptedQuery

from nomemory.recall.api import recall
from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.planning.base import Plan, Situation, ToolCall
from talk import said

NOW = datetime(2026, 3, 14, 2, tzinfo=UTC)
COVERED = Question("What does Ann do on Sundays, paint?", NOW)
SPARSE = Question("What does Ann paint in the attic, on rainy mornings, with her sister and her camera?", NOW)
TALK = [said("lin", "m1", "I paint on Sundays, I love to paint.", 1, name="Ann")]
RULE = EnoughRule(told_apart=0.5, otherwise=0.9)


async def answered(
    question: Question, sufficiency: float, *, told_apart: bool, rule: EnoughRule = RULE
) -> RecallResult:
    stub = ScriptedQuery(TALK, sufficiency=sufficiency, told_apart=told_apart)
    return await recall(stub, "lin", question, rule=rule)


@pytest.mark.parametrize(
    ("question", "sufficiency", "told_apart", "answers"),
    [
        (COVERED, 0.49, True, False),
        (COVERED, 0.5, True, True),
        (SPARSE, 0.5, True, True),
        (SPARSE, 0.89, False, False),
        (SPARSE, 0.91, False, True),
        (COVERED, 0.1, False, True),
    ],
    ids=["told-below", "told-at", "told-at-sparse", "else-below", "else-above", "covered"],
)
async def test_the_operating_points_decide(
    question: Question, sufficiency: float, *, told_apart: bool, answers: bool
) -> None:
    result = await answered(question, sufficiency, told_apart=told_apart)
    assert (result.verdict is not Verdict.INSUFFICIENT) is answers
    assert bool(result.memory_view.statements()) is answers


async def test_each_operating_point_is_the_hosts_and_moves_its_own_case_only() -> None:
    strict = EnoughRule(told_apart=0.8, otherwise=0.6)
    told = await answered(COVERED, 0.7, told_apart=True, rule=strict)
    otherwise = await answered(SPARSE, 0.7, told_apart=False, rule=strict)
    assert told.verdict is Verdict.INSUFFICIENT
    assert otherwise.verdict is Verdict.SUPPORTED


@pytest.mark.parametrize("sufficiency", [0.25, 0.75])
async def test_the_limits_have_it_and_say_why(sufficiency: float) -> None:
    limits = (await answered(SPARSE, sufficiency, told_apart=True)).limits
    assert limits.sufficiency == sufficiency
    assert limits.notes[-1].endswith(f"that the log answers it is {sufficiency:.0%} likely")
    assert limits.notes[-1].isascii()


async def test_a_recall_that_ranked_nothing_as_a_whole_has_none() -> None:
    class Lister:
        name = "lister"

        async def plan(self, situation: Situation) -> Plan:
            stop = situation.iteration > 1
            return Plan(stop=True) if stop else Plan((ToolCall("messages_list", {"role": "any"}),))

    result = await recall(ScriptedQuery(TALK), "lin", COVERED, planner=Lister())
    assert result.limits.sufficiency is None
    assert result.verdict is Verdict.SUPPORTED


async def test_a_log_without_a_word_of_it_has_none_either() -> None:
    assert (await recall(ScriptedQuery(), "lin", COVERED)).limits.sufficiency is None
