"""Trace a recall according to the OpenTelemetry conventions for generative AI."""

from __future__ import annotations

from collections.abc import Awaitable

from opentelemetry.trace import Span

from nomemory.recall.llm.model_span import build_usage_attributes
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.spans.span import set_content_attribute, start_child_span


async def trace_recall(recall_call: Awaitable[RecallResult], question: Question, user_id: str) -> RecallResult:
    """Run a recall, and record its result in a span."""
    with start_child_span("invoke_agent recall") as agent_span:
        if agent_span is None:
            return await recall_call
        agent_span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "recall"})
        set_content_attribute(agent_span, "gen_ai.memory.query.text", question.text)
        set_content_attribute(agent_span, "gen_ai.memory.store.id", user_id)
        result = await recall_call
        _record_result(agent_span, result)
        return result


def _record_result(agent_span: Span, result: RecallResult) -> None:
    limits = result.limits
    agent_span.set_attributes(
        {
            "gen_ai.memory.record.count": len(result.evidence),
            "nomemory.recall.verdict": result.verdict.value,
            "nomemory.recall.stop_reason": limits.stop_reason.value,
            "nomemory.recall.planner": limits.planner,
            "nomemory.recall.rounds": limits.iterations,
            "nomemory.recall.tool_calls": limits.tool_calls,
            **build_usage_attributes(limits.reading.usage),
        }
    )
