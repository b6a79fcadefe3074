"""The RecallService, which answers questions from a user's messages and builds prompt contexts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from nomemory.recall.context.request import ContextRequest
from nomemory.recall.context.result import BuiltContext
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.step import RecallStep
from nomemory.recall.skills.folder import SkillInvalidError, SkillNotFoundError
from nomemory.recall.skills.loader import Skill, SkillLibrary
from nomemory.recall.tools.query_stub import (
    EmbeddingRejectedError,
    IndexLaggingError,
    QueryServiceUnavailableError,
    WriteTokenRejectedError,
)
from nomemory.server.api.audit import AuditLog
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.service import ServedMethod
from nomemory.server.api.services.context_encoding import encode_context_reply
from nomemory.server.api.services.recall_encoding import encode_recall_reply, encode_step
from nomemory.server.api.validation.context_requests import decode_context
from nomemory.server.api.validation.recall_requests import RecallQuery, decode_recall
from nomemory.server.faults import Fault, Reason, Violation, build_field_fault
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.v1 import recall_service_pb2 as pb

OnStep = Callable[[RecallStep], Awaitable[None]]
RecallFunction = Callable[[str, RecallQuery, Skill, OnStep], Awaitable[RecallResult]]
"""Runs a recall for one user: `(user_id, query, skill, on_step)`."""
ContextFunction = Callable[[str, ContextRequest, float], Awaitable[BuiltContext]]
"""Builds a context for one user: `(user_id, request, timeout_s)`."""


async def _build_empty_context(_user_id: str, _request: ContextRequest, _timeout_s: float) -> BuiltContext:
    """Return a context without messages."""
    return BuiltContext()


@dataclass(frozen=True, slots=True)
class RecallService:
    """Serves `nomemory.v1.RecallService`.

    Attributes:
        budget: the server's limits on a recall.
        spaces: the vector indexes of this server; None if another server runs the searches.
        meters: counts the completed recalls.
    """

    run_recall: RecallFunction
    skills: SkillLibrary
    budget: Budget
    settings: Settings
    spaces: ActiveSpace | None = None
    meters: Meters = field(default_factory=Meters)
    build: ContextFunction = _build_empty_context
    full_name: str = "nomemory.v1.RecallService"

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods of the service by their short names.

        Each method binds its calls to one user.
        """
        required = RequiredScopes(frozenset({Scope.RECALL}), binds_user=True)
        max_duration_s = _compute_max_duration_s(self.budget)
        return {
            "Recall": ServedMethod(required, self.recall, min_deadline_s=max_duration_s),
            "StreamRecall": ServedMethod(required, self.stream_recall, min_deadline_s=max_duration_s),
            "BuildContext": ServedMethod(required, self.build_context),
        }

    async def recall(self, request: pb.RecallRequest, context: CallContext) -> pb.RecallResponse:
        """Run a recall."""
        user_id, query, skill = self._prepare_recall(request, context)
        with _translate_recall_errors():
            result = await self._run_recall(context, user_id, query, skill, _ignore_step)
        return self._encode_reply(result, include_trace=request.include_trace)

    async def stream_recall(
        self, request: pb.StreamRecallRequest, context: CallContext
    ) -> AsyncIterator[pb.StreamRecallResponse]:
        """Run a recall and stream its steps."""
        user_id, query, skill = self._prepare_recall(request, context)
        steps: asyncio.Queue[RecallStep | None] = asyncio.Queue()

        async def run_recall() -> RecallResult:
            try:
                return await self._run_recall(context, user_id, query, skill, steps.put)
            finally:
                steps.put_nowait(None)

        task = asyncio.create_task(run_recall())
        try:
            while (step := await steps.get()) is not None:
                yield pb.StreamRecallResponse(step=encode_step(step))
            with _translate_recall_errors():
                result = await task
            yield pb.StreamRecallResponse(result=self._encode_reply(result, include_trace=False))
        finally:
            task.cancel()

    async def build_context(self, request: pb.BuildContextRequest, context: CallContext) -> pb.BuildContextResponse:
        """Select messages of the bound user for the prompt of a chat model."""
        user_id = context.require_bound_user()
        decoded = decode_context(request, self.settings, datetime.now(UTC))
        with (
            _translate_recall_errors(),
            AuditLog(is_on=self.settings.server.audit_log).record_recall(context) as audited,
        ):
            built = await self.build(user_id, decoded, _compute_time_until_reply_s(context.compute_remaining_s()))
            audited.messages = len(built.recent) + len(built.related)
        return encode_context_reply(built)

    async def _run_recall(
        self, context: CallContext, user_id: str, query: RecallQuery, skill: Skill, on_step: OnStep
    ) -> RecallResult:
        with AuditLog(is_on=self.settings.server.audit_log).record_recall(context) as audited:
            result = await self.run_recall(user_id, query, skill, on_step)
            audited.messages = len(result.evidence)
            self._count_recall(result)
            return result

    def _count_recall(self, result: RecallResult) -> None:
        limits = result.limits
        self.meters.count(catalog.RECALLS, result.verdict.value, limits.stop_reason.value)
        self.meters.observe(catalog.RECALL_ITERATIONS, limits.iterations)
        self.meters.count(catalog.RECALL_DROPPED, by=limits.dropped_arguments)

    def _prepare_recall(
        self, request: pb.RecallRequest | pb.StreamRecallRequest, context: CallContext
    ) -> tuple[str, RecallQuery, Skill]:
        user_id = context.require_bound_user()
        dimension = self.spaces.current_space.embedder.dimension if self.spaces else None
        query = decode_recall(request, self.settings, self.budget, datetime.now(UTC), dimension)
        with _translate_recall_errors():
            skill = self.skills.load(query.skill)
        return user_id, replace(query, budget=_fit_to_deadline(query.budget, context.compute_remaining_s())), skill

    def _encode_reply(self, result: RecallResult, *, include_trace: bool) -> pb.RecallResponse:
        return encode_recall_reply(result, evidence_chars=self.budget.evidence_chars, include_trace=include_trace)


_SEARCH_SHARE: Final = 0.6
"""Share of the remaining time for searching."""
_MIN_TIMEOUT_S: Final = 0.01
_REPLY_RESERVE_SHARE: Final = 0.1
"""Share of the remaining time that is reserved for sending the reply."""
_REPLY_RESERVE_MAX_S: Final = 1.0
"""Maximum time in seconds that is reserved for sending the reply."""


def _fit_to_deadline(budget: Budget, remaining_s: float) -> Budget:
    """Return the budget with time limits that end before the call's deadline."""
    return budget.apply_request_limits(
        deadline_s=max(_MIN_TIMEOUT_S, remaining_s * _SEARCH_SHARE), answer_s=_compute_time_until_reply_s(remaining_s)
    )


def _compute_time_until_reply_s(remaining_s: float) -> float:
    """Return the remaining time in seconds, minus the time reserved for sending the response."""
    return max(_MIN_TIMEOUT_S, remaining_s - min(_REPLY_RESERVE_MAX_S, remaining_s * _REPLY_RESERVE_SHARE))


def _compute_max_duration_s(budget: Budget) -> float:
    """Return the maximum duration, in seconds, of a recall with a chat model; 0 without a chat model."""
    if not budget.read_messages:
        return 0.0
    return budget.deadline_s + budget.iterations * budget.model_s + 2 * _REPLY_RESERVE_MAX_S


async def _ignore_step(_step: RecallStep) -> None:
    return


@contextmanager
def _translate_recall_errors() -> Iterator[None]:
    """Translate errors of the recall agent into faults."""
    try:
        yield
    except SkillNotFoundError as error:
        raise Fault(Reason.ERROR_REASON_SKILL_NOT_FOUND, str(error)) from error
    except SkillInvalidError as error:
        raise Fault(Reason.ERROR_REASON_SKILL_INVALID, str(error)) from error
    except EmbeddingRejectedError as error:
        violation = Violation("question_embedding.values", str(error))
        raise build_field_fault(Reason.ERROR_REASON_INVALID_FIELD, violation) from error
    except WriteTokenRejectedError as error:
        violation = Violation("at_least", str(error))
        raise build_field_fault(Reason.ERROR_REASON_WRITE_TOKEN_INVALID, violation) from error
    except IndexLaggingError as error:
        raise Fault(Reason.ERROR_REASON_INDEX_LAGGING, str(error)) from error
    except QueryServiceUnavailableError as error:
        message = "the query service does not respond"
        raise Fault(Reason.ERROR_REASON_QUERY_SERVICE_UNAVAILABLE, message, retry_after_s=1.0) from error
