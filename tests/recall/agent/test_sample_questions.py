"""Tests that ask the sample questions of a real server with the rules."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from statistics import mean

import pytest
from recall.agent.labelled_questions import Labelled, labelled, query_stub

from nomemory.client import Client
from nomemory.recall.api import recall
from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.recall.skills.loader import Skill, SkillLibrary
from nomemory.recall.skills.steering.steering import read_planner_configuration
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_wiring import list_skill_folders

QUESTIONS = {entry.question_id: entry for entry in labelled()}
MAX_EVIDENCE = 6
CANARIES = ("青鸾匣", "Zephyrquill", "Marrowlight", "QK-88413", "桂花乌龙", "mei-")


@pytest.fixture(scope="module")
def answers(embedded_sample_target: str) -> dict[str, RecallResult]:
    """The result of every question."""

    async def ask() -> dict[str, RecallResult]:
        async with query_stub(embedded_sample_target) as stub:
            return {item.question_id: await recall_labelled(stub, item) for item in QUESTIONS.values()}

    return asyncio.run(ask())


async def recall_labelled(sample: QueryStub, labelled: Labelled) -> RecallResult:
    return await recall(sample, labelled.user_id, labelled.question)


def evidence_ids(result: RecallResult) -> list[str]:
    return [evidence.message.message_id for evidence in result.evidence]


def test_recall_finds_at_least_the_evidence_of_the_ranking(
    answers: dict[str, RecallResult], embedded_sample_target: str
) -> None:
    """Compare the recall of the same number of messages, averaged over the answerable questions."""
    answerable = [item for item in QUESTIONS.values() if item.evidence]

    def share(labelled: Labelled, ids: list[str]) -> float:
        return len(labelled.evidence & set(ids)) / len(labelled.evidence)

    with Client(embedded_sample_target) as client:
        ranked = {item.question_id: best(client, item) for item in answerable}
    by_recall = mean(share(item, evidence_ids(answers[item.question_id])) for item in answerable)
    assert by_recall >= mean(share(item, ranked[item.question_id]) for item in answerable)


def best(client: Client, labelled: Labelled) -> list[str]:
    reply = client.hybrid_search(
        labelled.user_id, labelled.question.text, top_k=MAX_EVIDENCE, until=labelled.question.now
    )
    return [item.message.message_id for item in reply.items]


def test_every_answer_has_citations_within_the_limits(answers: dict[str, RecallResult]) -> None:
    """Insufficient answers have an empty view and the nearest messages as evidence."""
    for result in answers.values():
        assert len(result.memory_view.list_statements()) <= MAX_EVIDENCE
        assert bool(result.memory_view.list_statements()) is (result.verdict is not Verdict.INSUFFICIENT)
        assert 1 <= len(result.evidence) <= MAX_EVIDENCE


def test_evidence_is_older_than_the_question(answers: dict[str, RecallResult]) -> None:
    for item in QUESTIONS.values():
        result = answers[item.question_id]
        assert all(evidence.message.ts < item.question.now for evidence in result.evidence)
        assert result.limits.time_range.until is not None
        assert result.limits.time_range.until <= item.question.now


def test_messages_of_other_users_are_never_returned(answers: dict[str, RecallResult]) -> None:
    for item in QUESTIONS.values():
        if item.user_id != "mei":
            output = repr(answers[item.question_id])
            assert not [canary for canary in CANARIES if canary in output]


async def test_repeated_question_has_the_same_answer(embedded_sample: QueryStub) -> None:
    first, second = [await recall_labelled(embedded_sample, QUESTIONS["lin-q01"]) for _ in range(2)]
    assert first.evidence == second.evidence
    assert [(step.tool, step.arguments) for step in first.trace] == [
        (step.tool, step.arguments) for step in second.trace
    ]


def test_every_step_has_a_reason(answers: dict[str, RecallResult]) -> None:
    result = answers["lin-q06"]
    assert all(step.thought for step in result.trace)
    assert {step.tool for step in result.trace} >= {"hybrid_search", "neighbors"}


def test_reported_speech_is_searched_as_an_exact_phrase(answers: dict[str, RecallResult]) -> None:
    result = answers["lin-q02"]
    queries = [step.arguments["query_text"] for step in result.trace if step.tool == "lexical_search"]
    assert any('"不吃辣"' in str(query) for query in queries)
    assert evidence_ids(result)[0] == "lin-0010"


def steered(lexicon: str) -> Skill:
    return Skill("crm", "d", "body", steering=read_planner_configuration({"SKILL.md": f"## Lexicon\n{lexicon}"}))


async def test_lexicon_matches_rank_below_exact_matches(embedded_sample: QueryStub) -> None:
    question = Question("我是不是说过我不吃辣？", datetime(2026, 3, 14, 2, tzinfo=UTC))
    exact = await recall(embedded_sample, "lin", question, skill=steered(""))
    noisy = await recall(
        embedded_sample, "lin", question, skill=steered("- 吃辣: 的, 了, 我, 会议, 天气, 火锅, 周末\n")
    )
    assert noisy.evidence[0].message == exact.evidence[0].message
    kept = {item.message.message_id for item in exact.evidence} & {item.message.message_id for item in noisy.evidence}
    assert len(kept) >= 4


@pytest.mark.parametrize("question_id", [question_id for question_id in QUESTIONS if question_id[-3:] < "q07"])
async def test_default_skill_does_not_change_the_recall(
    answers: dict[str, RecallResult], embedded_sample: QueryStub, question_id: str
) -> None:
    settings, labelled = Settings.from_environment(), QUESTIONS[question_id]
    default = SkillLibrary(list_skill_folders(settings), settings.recall.default_skill).load()
    without = answers[question_id]
    with_it = await recall(embedded_sample, labelled.user_id, labelled.question, skill=default)
    assert with_it.evidence == without.evidence
    assert with_it.memory_view == without.memory_view
    assert [(step.tool, step.arguments) for step in with_it.trace] == [
        (step.tool, step.arguments) for step in without.trace
    ]
