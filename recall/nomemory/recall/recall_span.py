"""A recall as a span, by the conventions of OpenTelemetry for generative AI."""

from __future__ import annotations

from collections.abc import Awaitable

from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.spans.span import Span, span


async def recall_in_span(answered: Awaitable[RecallResult], question: Question, user_id: str) -> RecallResult:
    """Recall, and note what it came to."""
    with span("invoke_agent recall") as made:
        if made is None:
            return await answered
        made.attributes |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "recall"}
        made.show("gen_ai.memory.query.text", question.text)
        made.show("gen_ai.memory.store.id", user_id)
        result = await answered
        _note(made, result)
        return result


def _note(made: Span, result: RecallResult) -> None:
    limits = result.limits
    made.attributes |= {
        "gen_ai.memory.record.count": len(result.evidence),
        "nomemory.recall.verdict": result.verdict.value,
        "nomemory.recall.stop_reason": limits.stop_reason.value,
        "nomemory.recall.planner": limits.planner,
        "nomemory.recall.rounds": limits.iterations,
        "nomemory.recall.tool_calls": limits.tool_calls,
    }
