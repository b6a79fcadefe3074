"""Results of a recall as the contract's messages."""

from __future__ import annotations

from datetime import datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.limits import Limits, StopReason
from nomemory.recall.model.memory_view import Attribution, Conflict, MemoryView, Statement, Verdict
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.roles import ROLE_IN_CONTRACT
from nomemory.recall.model.trace import Step
from nomemory.v1 import message_pb2
from nomemory.v1 import recall_service_pb2 as pb

_VERDICTS = {
    Verdict.SUPPORTED: pb.VERDICT_SUPPORTED,
    Verdict.CONFLICTING: pb.VERDICT_CONFLICTING,
    Verdict.INSUFFICIENT: pb.VERDICT_INSUFFICIENT,
    Verdict.PENDING: pb.VERDICT_PENDING,
}
_ATTRIBUTIONS = {
    Attribution.UNSPECIFIED: pb.ATTRIBUTION_UNSPECIFIED,
    Attribution.USER: pb.ATTRIBUTION_USER,
    Attribution.OTHER: pb.ATTRIBUTION_OTHER,
    Attribution.QUOTED: pb.ATTRIBUTION_QUOTED,
}
_STOP_REASONS = {
    StopReason.SUFFICIENT: pb.STOP_REASON_SUFFICIENT,
    StopReason.NO_GAIN: pb.STOP_REASON_NO_GAIN,
    StopReason.ITERATIONS: pb.STOP_REASON_ITERATIONS,
    StopReason.TOOL_CALLS: pb.STOP_REASON_TOOL_CALLS,
    StopReason.DEADLINE: pb.STOP_REASON_DEADLINE,
}
_SHOWN_IDS = 20


def recall_reply(result: RecallResult, *, evidence_chars: int, include_trace: bool) -> pb.RecallResponse:
    """Encode a result. Evidence longer than `evidence_chars` characters is cut and marked."""
    return pb.RecallResponse(
        memory_view=_view(result.memory_view),
        evidence=[_evidence(item, evidence_chars) for item in result.evidence],
        limits=_limits(result.limits),
        verdict=_VERDICTS[result.verdict],
        conflicts=[_conflict(conflict) for conflict in result.conflicts],
        trace=[step_reply(step) for step in result.trace] if include_trace else [],
    )


def step_reply(step: Step) -> pb.RecallStep:
    """Encode a step."""
    encoded = pb.RecallStep(
        iteration=step.iteration,
        thought=step.thought,
        tool=step.tool,
        hits=step.hits,
        message_ids=step.message_ids[:_SHOWN_IDS],
        observation=step.observation,
        elapsed=Duration(seconds=int(step.elapsed_s), nanos=int(step.elapsed_s % 1 * 1e9)),
    )
    encoded.arguments.update(dict(step.arguments))
    return encoded


def _view(view: MemoryView) -> pb.MemoryView:
    return pb.MemoryView(
        preferences=[_statement(statement) for statement in view.preferences],
        profile=[_statement(statement) for statement in view.profile],
        constraints=[_statement(statement) for statement in view.constraints],
    )


def _statement(statement: Statement) -> pb.Statement:
    citations = [
        pb.Citation(
            message_id=citation.message_id,
            quote=citation.quote,
            span=message_pb2.Span(start=citation.start, end=citation.end),
            ts=_timestamp(citation.ts),
        )
        for citation in statement.citations
    ]
    return pb.Statement(
        text=statement.text,
        citations=citations,
        superseded_by=statement.superseded_by,
        attribution=_ATTRIBUTIONS[statement.attribution],
    )


def _conflict(conflict: Conflict) -> pb.Conflict:
    return pb.Conflict(
        earlier=_statement(conflict.earlier), later=_statement(conflict.later), possible=conflict.possible
    )


def _evidence(item: Evidence, evidence_chars: int) -> pb.EvidenceMessage:
    message = item.message
    return pb.EvidenceMessage(
        message=message_pb2.ChatMessage(
            message_id=message.message_id,
            ts=_timestamp(message.ts),
            role=ROLE_IN_CONTRACT[message.role],
            content=message.content[:evidence_chars],
            name=message.name,
            conversation_id=message.conversation_id,
        ),
        truncated=len(message.content) > evidence_chars,
        score=item.score,
    )


def _limits(limits: Limits) -> pb.RecallLimits:
    encoded = pb.RecallLimits(
        role=ROLE_IN_CONTRACT[limits.role],
        messages_considered=limits.messages_considered,
        tool_calls=limits.tool_calls,
        iterations=limits.iterations,
        planner=limits.planner,
        stop_reason=_STOP_REASONS[limits.stop_reason],
        truncated=limits.truncated,
        index_behind=limits.index_behind,
        widened=limits.widened,
        skill=limits.skill,
        dropped_arguments=limits.dropped_arguments,
        model_calls=limits.reading.calls,
        messages_read=limits.reading.messages,
        notes=limits.notes,
    )
    if limits.sufficiency is not None:
        encoded.sufficiency = limits.sufficiency
    if limits.time_range.since is not None:
        encoded.time_range.since.CopyFrom(_timestamp(limits.time_range.since))
    if limits.time_range.until is not None:
        encoded.time_range.until.CopyFrom(_timestamp(limits.time_range.until))
    return encoded


def _timestamp(moment: datetime) -> Timestamp:
    encoded = Timestamp()
    encoded.FromDatetime(moment)
    return encoded
