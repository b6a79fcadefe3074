"""Tests for the recall host: budgets, widening of the scope, failures and reported steps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from recall.agent.scripted_query import ScriptedQuery

from chat_messages import new_message
from nomemory.recall.api import recall
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.search_limits import StopReason
from nomemory.recall.model.step import RecallStep
from nomemory.recall.model.sufficiency import SufficiencyThresholds
from nomemory.recall.planning.base import Plan, PlannerFailedError, PlanningState, ToolCall
from nomemory.recall.tools.query_stub import QueryServiceUnavailableError, QueryStub
from nomemory.text.time_range import TimeRange

NOW = datetime(2026, 3, 14, 2, tzinfo=UTC)
FOOD = Question("你记得我有什么饮食偏好吗？", NOW)


MEANT = ToolCall("semantic_search", {"query_text": "饮食"})


class Scripted:
    """A planner with scripted plans."""

    name = "scripted"

    def __init__(self, *plans: Plan | Exception) -> None:
        self._plans = list(plans)
        self.seen: list[PlanningState] = []

    async def plan(self, state: PlanningState) -> Plan:
        self.seen.append(state)
        plan = self._plans.pop(0) if self._plans else Plan(stop=True, thought="enough")
        if isinstance(plan, Exception):
            raise plan
        return plan


def lexical(query: str, **scope: object) -> ToolCall:
    return ToolCall("lexical_search", {"query_text": query, "filter": scope})  # type: ignore[dict-item]  # JSON, by the test


async def test_evidence_and_calls_stay_within_the_budget(sample: QueryStub) -> None:
    budget = Budget(iterations=2, tool_calls=5, evidence_messages=3, anchors=2)
    result = await recall(sample, "lin", FOOD, budget=budget)
    assert len(result.evidence) == 3
    assert result.limits.tool_calls <= 5
    assert result.limits.iterations <= 2


async def test_endless_planner_is_stopped_by_the_budget(sample: QueryStub) -> None:
    plans = [Plan((lexical(word), lexical(f"{word} x"))) for word in ("芒果", "花生", "辣椒")]
    few_rounds = await recall(sample, "lin", FOOD, planner=Scripted(*plans), budget=Budget(iterations=2))
    few_calls = await recall(sample, "lin", FOOD, planner=Scripted(*plans), budget=Budget(tool_calls=5, anchors=1))
    assert (few_rounds.limits.stop_reason, few_rounds.limits.iterations) == (StopReason.ITERATIONS, 2)
    assert few_calls.limits.stop_reason is StopReason.TOOL_CALLS
    assert few_calls.limits.tool_calls == 5


async def test_neighbors_of_the_best_messages_are_read_automatically(sample: QueryStub) -> None:
    planner = Scripted(Plan((lexical("芒果"),)))
    result = await recall(sample, "lin", FOOD, planner=planner)
    around = [step for step in result.trace if step.tool == "neighbors"]
    assert [step.arguments["message_id"] for step in around] == [
        evidence.message.message_id for evidence in planner.seen[1].ranked[:3]
    ]
    assert all(step.arguments["before"] == 8 and step.arguments["after"] == 0 for step in around)


async def test_single_call_budget_is_used_for_the_search(sample: QueryStub) -> None:
    result = await recall(sample, "lin", FOOD, budget=Budget(tool_calls=1))
    assert result.limits.tool_calls == 1
    assert [step.tool for step in result.trace if step.tool] == ["hybrid_search"]
    assert result.evidence


async def test_insufficient_evidence_widens_the_scope_and_is_reported(sample: QueryStub) -> None:
    question = replace(FOOD, time_range=TimeRange(NOW - timedelta(days=2), NOW), role=Role.ASSISTANT)
    result = await recall(sample, "lin", question)
    searched = [step.arguments["filter"] for step in result.trace if step.tool == "hybrid_search"]
    assert searched[0] == {
        "role": "assistant",
        "time_range": {"since": "2026-03-12T02:00:00Z", "until": "2026-03-14T02:00:00Z"},
    }
    assert result.limits.widened
    assert result.limits.time_range.since is None or result.limits.time_range.since < NOW - timedelta(days=2)


async def test_sufficient_evidence_does_not_widen_the_time_range(sample: QueryStub) -> None:
    window = TimeRange(datetime(2025, 7, 1, tzinfo=UTC), datetime(2025, 8, 1, tzinfo=UTC))
    question = Question("我的工作有什么变化？", NOW, window)
    result = await recall(sample, "lin", question)
    assert not result.limits.widened
    assert result.limits.time_range == window


async def test_search_starts_with_the_role_of_the_caller(sample: QueryStub) -> None:
    result = await recall(sample, "lin", replace(FOOD, role=Role.USER))
    assert result.limits.role is Role.USER
    assert not result.limits.widened


async def test_steps_are_reported_as_they_happen(sample: QueryStub) -> None:
    steps: list[RecallStep] = []

    async def on_step(step: RecallStep) -> None:
        steps.append(step)

    result = await recall(sample, "lin", FOOD, on_step=on_step)
    assert tuple(steps) == result.trace
    assert all(step.elapsed_s > 0 for step in steps if step.tool)


async def test_considered_messages_are_counted_once(sample: QueryStub) -> None:
    planner = Scripted(Plan((lexical("芒果"), lexical("芒果 过敏"))))
    result = await recall(sample, "lin", FOOD, planner=planner, budget=Budget(anchors=0))
    assert result.limits.messages_considered == len({item for step in result.trace for item in step.message_ids})


async def test_identical_call_is_not_repeated() -> None:
    stub = ScriptedQuery()
    planner = Scripted(Plan((lexical("a"),)), Plan((lexical("a"),)))
    result = await recall(stub, "lin", FOOD, planner=planner)
    assert stub.methods().count("LexicalSearch") == 1
    assert result.trace[2].observation == "not repeated: made before"
    assert result.limits.stop_reason is StopReason.NO_GAIN


async def test_dropped_arguments_are_counted() -> None:
    planner = Scripted(Plan((lexical("a", user_id="mei"), ToolCall("messages_list", {"uid": "mei"}))))
    stub = ScriptedQuery()
    result = await recall(stub, "lin", FOOD, planner=planner)
    assert result.limits.dropped_arguments == 2
    assert "mei" not in repr(result)
    assert {request.user_id for request in stub.requests} == {"lin"}


async def test_failed_planner_falls_back_to_rules(sample: QueryStub) -> None:
    planner = Scripted(Plan((lexical("芒果"),)), PlannerFailedError())
    result = await recall(sample, "lin", FOOD, planner=planner)
    assert result.limits.planner == "scripted→rules"
    assert any("the planner rules continued" in note.text for note in result.limits.notes)
    assert len(result.evidence) == 6


async def test_hanging_planner_leaves_time_for_the_rules(sample: QueryStub) -> None:
    class Hanging:
        name = "hanging"

        async def plan(self, _situation: PlanningState) -> Plan:
            await asyncio.Event().wait()
            return Plan()

    result = await recall(sample, "lin", FOOD, planner=Hanging(), budget=Budget(deadline_s=3.0))
    assert result.limits.planner == "hanging→rules"
    assert len(result.evidence) == 6


async def test_every_recall_starts_with_the_hybrid_ranking_for_any_planner(sample: QueryStub) -> None:
    planner = Scripted(Plan((lexical("芒果"),)))
    result = await recall(sample, "lin", FOOD, planner=planner)
    assert [step.tool for step in result.trace[:2]] == ["hybrid_search", "lexical_search"]
    assert planner.seen[0].ranked
    assert planner.seen[0].steps[0].tool == "hybrid_search"


async def test_latest_superseding_message_is_used_regardless_of_call_order() -> None:
    lines = [new_message("lin", f"m{day}", f"我的画室在第 {day} 号院", day * 86_400.0) for day in (1, 2, 3)]
    stub = ScriptedQuery(lines, relations=[[("m1", "m3")], [("m1", "m2"), ("m2", "m3")]])
    calls = [ToolCall("hybrid_search", {"query_text": text}) for text in ("画室", "院子")]
    result = await recall(
        stub,
        "lin",
        Question("我的画室在哪？", NOW),
        planner=Scripted(Plan(tuple(calls))),
        thresholds=SufficiencyThresholds(quoted=0.1),
    )
    marks = {
        statement.citations[0].message_id: statement.superseded_by for statement in result.memory_view.list_statements()
    }
    assert marks["m1"] == "m3"


async def test_a_recall_without_results_has_the_verdict_insufficient() -> None:
    result = await recall(ScriptedQuery(), "lin", FOOD)
    assert result.verdict is Verdict.INSUFFICIENT
    assert not result.evidence
    assert result.limits.stop_reason is not StopReason.SUFFICIENT


async def test_rules_start_with_one_ranking_of_the_question() -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "我从小不吃辣", 1)])
    result = await recall(stub, "lin", FOOD)
    assert [step.tool for step in result.trace][:1] == ["hybrid_search"]
    assert stub.methods()[0] == "HybridSearch"
    assert (stub.requests[0].query_text, stub.requests[0].explain) == (FOOD.text, True)


async def test_lexical_only_ranking_is_noted_and_semantic_search_not_retried() -> None:
    messages = [new_message("lin", f"m{number}", f"我不吃辣，第 {number} 次说了", number) for number in range(9)]
    stub = ScriptedQuery(messages, failing={"SemanticSearch": grpc.StatusCode.FAILED_PRECONDITION})
    result = await recall(stub, "lin", Question("我不吃什么？另外，我对什么过敏？", NOW))
    assert "SemanticSearch" not in stub.methods()
    assert result.trace[0].observation.endswith("semantic search is unavailable: only lexical search was used")
    assert len(result.evidence) == 6
    assert result.limits.notes[0].text == "semantic search was incomplete: only lexical search was used"


async def test_complete_hybrid_ranking_has_no_lexical_only_note() -> None:
    result = await recall(ScriptedQuery([new_message("lin", "m1", "我从小不吃辣", 1)]), "lin", FOOD)
    assert not [note for note in result.limits.notes if "meaning" in note.text]


async def test_hanging_embedder_leaves_time_for_lexical_search() -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "我从小不吃辣", 1)], hangs="SemanticSearch")
    planner = Scripted(Plan((MEANT, lexical("不吃辣"))))
    async with asyncio.timeout(10):
        result = await recall(stub, "lin", FOOD, planner=planner, budget=Budget(deadline_s=1.5))
    assert [evidence.message.message_id for evidence in result.evidence] == ["m1"]
    assert result.limits.stop_reason is not StopReason.DEADLINE
    assert "SemanticSearch" not in stub.methods()  # the ranking has shown that semantic search hangs


@pytest.mark.parametrize("code", [grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.DEADLINE_EXCEEDED])
async def test_failed_semantic_search_does_not_count_as_a_call(code: grpc.StatusCode) -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "我从小不吃辣", 1)], failing={"SemanticSearch": code})
    planner = Scripted(Plan((MEANT, lexical("不吃辣"))))
    result = await recall(stub, "lin", FOOD, planner=planner, budget=Budget(tool_calls=1))
    assert [evidence.message.message_id for evidence in result.evidence] == ["m1"]
    assert result.limits.tool_calls == 1


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    ],
)
async def test_lexical_search_is_used_without_semantic_search(code: grpc.StatusCode) -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "我从小不吃辣", 1)], failing={"SemanticSearch": code})
    result = await recall(stub, "lin", FOOD, planner=Scripted(Plan((MEANT, lexical("不吃辣")))))
    assert [evidence.message.message_id for evidence in result.evidence] == ["m1"]
    assert any("meaning cannot be searched" in step.observation for step in result.trace)


async def test_unresponsive_service_is_an_error_within_the_timeout() -> None:
    failing = dict.fromkeys(
        ("ListMessages", "LexicalSearch", "SemanticSearch", "HybridSearch", "GetNeighbors"),
        grpc.StatusCode.UNAVAILABLE,
    )
    stub = ScriptedQuery(failing=failing)
    with pytest.raises(QueryServiceUnavailableError):
        await recall(stub, "lin", FOOD)
    assert stub.methods() == ["HybridSearch"]


async def test_cancellation_stops_the_call_in_flight() -> None:
    stub = ScriptedQuery(hangs="HybridSearch")
    task = asyncio.create_task(recall(stub, "lin", FOOD))
    await stub.hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stub.cancelled == 1
    assert stub.methods() == ["HybridSearch"]


async def test_search_stops_at_the_deadline() -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "我从小不吃辣", 1)])
    result = await recall(stub, "lin", FOOD, budget=Budget(deadline_s=0.0))
    assert result.limits.stop_reason is StopReason.DEADLINE
    assert result.verdict is Verdict.INSUFFICIENT
    assert not [step for step in result.trace if step.tool]
    assert stub.methods() == ["HybridSearch"]  # the index status is read before the verdict


async def test_long_evidence_is_marked_as_truncated() -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "我从小不吃辣" * 100, 1)])
    result = await recall(stub, "lin", FOOD, budget=Budget(evidence_chars=50))
    assert result.limits.truncated


async def test_evidence_of_usual_length_is_not_truncated() -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "我从小不吃辣。" * 2_000, 1)])
    result = await recall(stub, "lin", FOOD)
    assert not result.limits.truncated


async def test_write_token_is_sent_with_every_read_that_accepts_one() -> None:
    stub = ScriptedQuery([new_message("lin", "m1", "我从小不吃辣", 1)])
    planner = Scripted(Plan((lexical("a"), MEANT)))
    await recall(stub, "lin", FOOD, planner=planner, at_least="w_x")
    assert stub.methods()[0] == "HybridSearch"  # both indexes are awaited before other reads
    assert {request.at_least for request in stub.requests if hasattr(request, "at_least")} == {"w_x"}


async def test_planner_cannot_search_outside_the_conversation() -> None:
    stub = ScriptedQuery(
        [new_message("lin", "m1", "我从小不吃辣", 1, conversation_id="mine"), new_message("lin", "m2", "辣", 2)]
    )
    stray = ToolCall("lexical_search", {"query_text": "辣", "filter": {"conversation_id": "other"}})
    listed = ToolCall("messages_list", {"role": "any", "conversation_id": "other"})
    question = replace(FOOD, conversation_id="mine")
    result = await recall(stub, "lin", question, planner=Scripted(Plan((stray, listed, lexical("辣")))))
    assert "restricted to another conversation" in result.trace[1].observation
    assert result.trace[2].arguments["conversation_id"] == "mine"
    filters = [request.filter for request in stub.requests if hasattr(request, "filter")]
    assert {entry.conversation_id for entry in filters} == {"mine"}
    assert [item.message.message_id for item in result.evidence] == ["m1"]


async def test_metadata_is_sent_with_every_call() -> None:
    stub = ScriptedQuery()
    await recall(stub, "lin", FOOD, metadata=(("authorization", "Bearer key"),))
    assert set(stub.metadata) == {(("authorization", "Bearer key"),)}
