"""RecallService: bind, decode, recall, encode.

Results of a recall as the contract's messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.contract_roles import ROLE_IN_CONTRACT
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.memory_view import Conflict, MemoryView, Statement
from nomemory.recall.model.note import Note
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.search_limits import Limits
from nomemory.recall.model.step import Step
from nomemory.recall.skills.folder import SkillInvalidError, SkillNotFoundError
from nomemory.recall.skills.loader import Skill, SkillLibrary
from nomemory.recall.tools.query_stub import (
    EmbeddingRefusedError,
    IndexBehindError,
    QueryServiceUnavailableError,
    WriteTokenRefusedError,
)
from nomemory.server.api.audit import Audit
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.service import ServedMethod
from nomemory.server.api.validation.recall_requests import RecallQuery, decode_recall
from nomemory.server.faults import Fault, Reason, Violation, bad_field
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.v1 import message_pb2
from nomemory.v1 import recall_service_pb2 as pb

_SHOWN_IDS = 20


def recall_reply(result: RecallResult, *, evidence_chars: int, include_trace: bool) -> pb.RecallResponse:
    """Encode a result. Evidence longer than `evidence_chars` characters is cut and marked."""
    return pb.RecallResponse(
        memory_view=_view(result.memory_view),
        evidence=[_evidence(item, evidence_chars) for item in result.evidence],
        limits=_limits(result.limits),
        verdict=pb.Verdict.Value(f"VERDICT_{result.verdict.name}"),
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
        attribution=pb.Attribution.Value(f"ATTRIBUTION_{statement.attribution.name}"),
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
            retracts=message.retracts,
            retracted_by=message.retracted_by,
        ),
        truncated=len(message.content) > evidence_chars,
        score=item.score,
    )


def _limits(limits: Limits) -> pb.RecallLimits:
    since, until = limits.time_range.since, limits.time_range.until
    return pb.RecallLimits(
        time_range=message_pb2.TimeRange(since=_timestamp(since), until=_timestamp(until)) if since or until else None,
        role=ROLE_IN_CONTRACT[limits.role],
        messages_considered=limits.messages_considered,
        tool_calls=limits.tool_calls,
        iterations=limits.iterations,
        planner=limits.planner,
        stop_reason=pb.StopReason.Value(f"STOP_REASON_{limits.stop_reason.name}"),
        truncated=limits.truncated,
        index_behind=limits.index_behind,
        widened=limits.widened,
        skill=limits.skill,
        dropped_arguments=limits.dropped_arguments,
        model_calls=limits.reading.calls,
        messages_read=limits.reading.messages,
        notes=[note.text for note in limits.notes],
        coded_notes=[_coded(note) for note in limits.notes],
        sufficiency=limits.sufficiency,
        enough=limits.enough,
    )


def _coded(note: Note) -> pb.CodedNote:
    return pb.CodedNote(code=pb.NoteCode.Value(f"NOTE_CODE_{note.kind.name}"), count=note.count)


def _timestamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    encoded = Timestamp()
    encoded.FromDatetime(moment)
    return encoded


OnStep = Callable[[Step], Awaitable[None]]
Ask = Callable[[str, RecallQuery, Skill, OnStep], Awaitable[RecallResult]]
"""Recalls for one user: `(user_id, query, skill, on_step)`."""


@dataclass(frozen=True, slots=True)
class RecallService:
    """Serves `nomemory.v1.RecallService`.

    Attributes:
        ask: the recall itself, with its planner and where it reads from.
        skills: what a request may choose from.
        budget: the host's.
        spaces: what is searched by meaning; None where that is another server's.
        meters: count recalls that came to an answer.
    """

    ask: Ask
    skills: SkillLibrary
    budget: Budget
    settings: Settings
    spaces: ActiveSpace | None = None
    meters: Meters = field(default_factory=Meters)
    full_name: str = "nomemory.v1.RecallService"

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by their short names. Each needs a scope, and exactly one bound user."""
        required = RequiredScopes(frozenset({Scope.RECALL}), binds_user=True)
        longest_s = _longest_s(self.budget)
        return {
            "Recall": ServedMethod(required, self.recall, min_deadline_s=longest_s),
            "StreamRecall": ServedMethod(required, self.stream_recall, min_deadline_s=longest_s),
        }

    async def recall(self, request: pb.RecallRequest, context: CallContext) -> pb.RecallResponse:
        """Search and answer."""
        user_id, query, skill = self._prepared(request, context)
        with _faults():
            result = await self._asked(context, user_id, query, skill, _unseen)
        return self._reply(result, include_trace=query.include_trace)

    async def stream_recall(
        self, request: pb.StreamRecallRequest, context: CallContext
    ) -> AsyncIterator[pb.StreamRecallResponse]:
        """Search and answer, each step as it happens."""
        user_id, query, skill = self._prepared(request.recall, context)
        steps: asyncio.Queue[Step | None] = asyncio.Queue()

        async def work() -> RecallResult:
            try:
                return await self._asked(context, user_id, query, skill, steps.put)
            finally:
                steps.put_nowait(None)

        task = asyncio.create_task(work())
        try:
            while (step := await steps.get()) is not None:
                yield pb.StreamRecallResponse(step=step_reply(step))
            with _faults():
                result = await task
            yield pb.StreamRecallResponse(result=self._reply(result, include_trace=False))
        finally:
            task.cancel()

    async def _asked(
        self, context: CallContext, user_id: str, query: RecallQuery, skill: Skill, on_step: OnStep
    ) -> RecallResult:
        with Audit(is_on=self.settings.server.audit).recalling(context) as retrieved:
            result = await self.ask(user_id, query, skill, on_step)
            retrieved.messages = len(result.evidence)
            self._note(result)
            return result

    def _note(self, result: RecallResult) -> None:
        limits = result.limits
        self.meters.count(catalog.RECALLS, result.verdict.value, limits.stop_reason.value)
        self.meters.observe(catalog.RECALL_ROUNDS, limits.iterations)
        self.meters.count(catalog.RECALL_DROPPED, by=limits.dropped_arguments)

    def _prepared(self, request: pb.RecallRequest, context: CallContext) -> tuple[str, RecallQuery, Skill]:
        user_id = context.bound_user()
        dimension = self.spaces.now.embedder.dimension if self.spaces else None
        query = decode_recall(request, self.settings, self.budget, datetime.now(UTC), dimension)
        with _faults():
            skill = self.skills.load(query.skill)
        return user_id, replace(query, budget=_within(query.budget, context.remaining_s())), skill

    def _reply(self, result: RecallResult, *, include_trace: bool) -> pb.RecallResponse:
        return recall_reply(result, evidence_chars=self.budget.evidence_chars, include_trace=include_trace)


_SEARCHING: Final = 0.6
"""Share of a call's deadline for searching."""


_SHORTEST_S: Final = 0.01
_REPLY_SHARE: Final = 0.1
_REPLY_S: Final = 1.0
"""What is kept for the reply: a share of a call's deadline, but no more than so many seconds."""


def _within(budget: Budget, left_s: float) -> Budget:
    """Return a budget that leaves time to reply."""
    return budget.tightened(
        deadline_s=max(_SHORTEST_S, left_s * _SEARCHING),
        answer_s=max(_SHORTEST_S, left_s - min(_REPLY_S, left_s * _REPLY_SHARE)),
    )


def _longest_s(budget: Budget) -> float:
    """Return how long a recall may take where a chat model uses all the time that it has; 0 without a model."""
    if not budget.read_messages:
        return 0.0
    return budget.deadline_s + budget.iterations * budget.model_s + 2 * _REPLY_S


async def _unseen(_step: Step) -> None:
    return


@contextmanager
def _faults() -> Iterator[None]:
    """Turn what the recall raises into faults of the contract."""
    try:
        yield
    except SkillNotFoundError as error:
        raise Fault(Reason.ERROR_REASON_SKILL_NOT_FOUND, str(error)) from error
    except SkillInvalidError as error:
        raise Fault(Reason.ERROR_REASON_SKILL_INVALID, str(error)) from error
    except EmbeddingRefusedError as error:
        refused = Violation("question_embedding.values", str(error))
        raise bad_field(Reason.ERROR_REASON_INVALID_FIELD, refused) from error
    except WriteTokenRefusedError as error:
        refused = Violation("at_least", str(error))
        raise bad_field(Reason.ERROR_REASON_WRITE_TOKEN_INVALID, refused) from error
    except IndexBehindError as error:
        raise Fault(Reason.ERROR_REASON_INDEX_BEHIND, str(error)) from error
    except QueryServiceUnavailableError as error:
        message = "the query service does not answer"
        raise Fault(Reason.ERROR_REASON_QUERY_SERVICE_UNAVAILABLE, message, retry_after_s=1.0) from error
