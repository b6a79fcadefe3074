"""Encoding of recall results as protobuf messages."""

from __future__ import annotations

from datetime import datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.recall.model.contract_roles import ROLE_IN_CONTRACT
from nomemory.recall.model.evidence import Evidence, RetrievedMessage
from nomemory.recall.model.memory_view import Conflict, MemoryView, Statement
from nomemory.recall.model.model_reading import TokenUsage
from nomemory.recall.model.note import Note
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.search_limits import SearchLimits
from nomemory.recall.model.step import RecallStep
from nomemory.text.time_range import TimeRange
from nomemory.v1 import message_pb2
from nomemory.v1 import recall_service_pb2 as pb

_SHOWN_IDS = 20


def encode_recall_reply(result: RecallResult, *, evidence_chars: int, include_trace: bool) -> pb.RecallResponse:
    """Encode the result of a recall, with each evidence message truncated to `evidence_chars` characters."""
    return pb.RecallResponse(
        memory_view=_encode_view(result.memory_view),
        evidence=[_encode_evidence(item, evidence_chars) for item in result.evidence],
        limits=_encode_limits(result.limits),
        verdict=pb.Verdict.Value(f"VERDICT_{result.verdict.name}"),
        conflicts=[_encode_conflict(conflict) for conflict in result.conflicts],
        trace=[encode_step(step) for step in result.trace] if include_trace else [],
    )


def encode_step(step: RecallStep) -> pb.RecallStep:
    """Encode a step of a recall, with at most 20 message ids."""
    encoded = pb.RecallStep(
        iteration=step.iteration,
        thought=step.thought,
        tool=step.tool,
        hits=step.hit_count,
        message_ids=step.message_ids[:_SHOWN_IDS],
        observation=step.observation,
        elapsed=Duration(seconds=int(step.elapsed_s), nanos=int(step.elapsed_s % 1 * 1e9)),
    )
    encoded.arguments.update(dict(step.arguments))
    return encoded


def _encode_view(view: MemoryView) -> pb.MemoryView:
    return pb.MemoryView(
        preferences=[_encode_statement(statement) for statement in view.preferences],
        profile=[_encode_statement(statement) for statement in view.profile],
        constraints=[_encode_statement(statement) for statement in view.constraints],
    )


def _encode_statement(statement: Statement) -> pb.Statement:
    citations = [
        pb.Citation(
            message_id=citation.message_id,
            quote=citation.quote,
            span=message_pb2.Span(start=citation.start, end=citation.end),
            ts=_encode_timestamp(citation.ts),
        )
        for citation in statement.citations
    ]
    return pb.Statement(
        text=statement.text,
        citations=citations,
        superseded_by=statement.superseded_by,
        attribution=pb.Attribution.Value(f"ATTRIBUTION_{statement.attribution.name}"),
    )


def _encode_conflict(conflict: Conflict) -> pb.Conflict:
    return pb.Conflict(
        earlier=_encode_statement(conflict.earlier),
        later=_encode_statement(conflict.later),
        possible=conflict.is_possible,
    )


def _encode_evidence(item: Evidence, evidence_chars: int) -> pb.EvidenceMessage:
    message = item.message
    return pb.EvidenceMessage(
        message=encode_message(message, message.content[:evidence_chars]),
        truncated=len(message.content) > evidence_chars,
        score=item.score,
    )


def encode_message(message: RetrievedMessage, content: str) -> message_pb2.ChatMessage:
    """Encode a retrieved message with `content` in place of its full content."""
    return message_pb2.ChatMessage(
        message_id=message.message_id,
        ts=_encode_timestamp(message.ts),
        role=ROLE_IN_CONTRACT[message.role],
        content=content,
        name=message.name,
        conversation_id=message.conversation_id,
        retracts=message.retracts,
        retracted_by=message.retracted_by,
    )


def _encode_limits(limits: SearchLimits) -> pb.RecallLimits:
    since, until = limits.time_range.since, limits.time_range.until
    return pb.RecallLimits(
        time_range=message_pb2.TimeRange(since=_encode_timestamp(since), until=_encode_timestamp(until))
        if since or until
        else None,
        role=ROLE_IN_CONTRACT[limits.role],
        messages_considered=limits.messages_considered,
        tool_calls=limits.tool_calls,
        iterations=limits.iterations,
        planner=_encode_planner(limits.planner),
        stop_reason=pb.StopReason.Value(f"STOP_REASON_{limits.stop_reason.name}"),
        truncated=limits.truncated,
        index_lagging=limits.index_lagging,
        widened=limits.widened,
        skill=limits.skill,
        dropped_arguments=limits.dropped_arguments,
        model_calls=limits.reading.calls,
        messages_read=limits.reading.messages,
        notes=[_encode_note(note) for note in limits.notes],
        sufficiency=limits.sufficiency,
        sufficiency_threshold=limits.sufficiency_threshold,
        empty_time_ranges=map(_encode_time_range, limits.empty_time_ranges),
        token_usage=_encode_token_usage(limits.reading.usage),
    )


def _encode_token_usage(usage: TokenUsage | None) -> pb.TokenUsage | None:
    if usage is None:
        return None
    return pb.TokenUsage(prompt_tokens=usage.prompt, completion_tokens=usage.completion, cached_tokens=usage.cached)


def _encode_time_range(period: TimeRange) -> message_pb2.TimeRange:
    return message_pb2.TimeRange(since=_encode_timestamp(period.since), until=_encode_timestamp(period.until))


def _encode_planner(name: str) -> pb.Planner.ValueType:
    """Encode the name of a planner.

    The name `NAME→rules` means that the rules replaced the planner NAME after it failed.
    """
    planner, *fallback = name.split("→")
    if planner == "rules":
        return pb.PLANNER_RULES
    if planner == "llm":
        return pb.PLANNER_LLM_FALLBACK if fallback else pb.PLANNER_LLM
    return pb.PLANNER_PLUGIN_FALLBACK if fallback else pb.PLANNER_PLUGIN


def _encode_note(note: Note) -> pb.Note:
    return pb.Note(code=pb.NoteCode.Value(f"NOTE_CODE_{note.kind.name}"), count=note.count, text=note.text)


def _encode_timestamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    encoded = Timestamp()
    encoded.FromDatetime(moment)
    return encoded
