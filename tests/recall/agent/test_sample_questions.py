"""The questions of the sample, asked of a real server with the rules."""

from __future__ import annotations

import asyncio
from statistics import mean

import pytest
from recall.agent.conftest import Labelled, labelled, query_stub

from nomemory.recall.api import recall
from nomemory.recall.model.result import RecallResult
from nomemory.recall.tools.query_stub import QueryStub

QUESTIONS = {one.question_id: one for one in labelled()}
CHINESE = [f"lin-q0{number}" for number in range(1, 7)]
ENGLISH = [f"sam-q0{number}" for number in range(1, 7)]
CANARIES = ("青鸾匣", "Zephyrquill", "Marrowlight", "QK-88413", "桂花乌龙", "mei-")
FLOOR = 0.75
"""Of the evidence in the six best, averaged over the answerable questions; 0.83 was measured."""


@pytest.fixture(scope="module")
def answers(sample_target: str) -> dict[str, RecallResult]:
    """What comes of every question."""

    async def ask() -> dict[str, RecallResult]:
        async with query_stub(sample_target) as stub:
            return {one.question_id: await asked(stub, one) for one in QUESTIONS.values()}

    return asyncio.run(ask())


async def asked(sample: QueryStub, one: Labelled) -> RecallResult:
    return await recall(sample, one.user_id, one.question)


def found(result: RecallResult) -> list[str]:
    return [evidence.message.message_id for evidence in result.evidence]


@pytest.mark.parametrize("question_id", CHINESE + ENGLISH)
def test_the_six_questions_find_their_evidence(answers: dict[str, RecallResult], question_id: str) -> None:
    result = answers[question_id]
    assert QUESTIONS[question_id].evidence & set(found(result))
    assert len(result.evidence) <= 6


def test_most_evidence_of_all_questions_is_among_the_six(answers: dict[str, RecallResult]) -> None:
    answerable = [one for one in QUESTIONS.values() if one.evidence]
    recalls = [len(one.evidence & set(found(answers[one.question_id]))) / len(one.evidence) for one in answerable]
    assert mean(recalls) >= FLOOR


def test_nothing_said_at_or_after_the_question_is_looked_at(answers: dict[str, RecallResult]) -> None:
    for one in QUESTIONS.values():
        result = answers[one.question_id]
        assert all(evidence.message.ts < one.question.now for evidence in result.evidence)
        assert result.limits.time_range.until is not None
        assert result.limits.time_range.until <= one.question.now


def test_no_other_users_message_is_ever_seen(answers: dict[str, RecallResult]) -> None:
    for one in QUESTIONS.values():
        if one.user_id != "mei":
            told = repr(answers[one.question_id])
            assert not [canary for canary in CANARIES if canary in told]


async def test_the_same_question_has_the_same_answer(sample: QueryStub) -> None:
    first, second = [await asked(sample, QUESTIONS["lin-q01"]) for _ in range(2)]
    assert first.evidence == second.evidence
    assert [(step.tool, step.arguments) for step in first.trace] == [
        (step.tool, step.arguments) for step in second.trace
    ]


def test_every_step_says_why(answers: dict[str, RecallResult]) -> None:
    result = answers["lin-q06"]
    assert all(step.thought for step in result.trace)
    assert result.trace[0].tool == "messages_list"
    assert {step.tool for step in result.trace} >= {"lexical_search", "semantic_search", "neighbors"}


def test_what_was_said_in_so_many_words_is_looked_for_as_a_phrase(answers: dict[str, RecallResult]) -> None:
    result = answers["lin-q02"]
    queries = [step.arguments["query_text"] for step in result.trace if step.tool == "lexical_search"]
    assert any('"不吃辣"' in str(query) for query in queries)
    assert found(result)[0] == "lin-0010"
