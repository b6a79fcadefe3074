"""RecallService: bind, decode, recall, encode."""

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
from nomemory.server.api.services.context_encoding import context_reply
from nomemory.server.api.services.recall_encoding import recall_reply, step_reply
from nomemory.server.api.validation.context_requests import decode_context
from nomemory.server.api.validation.recall_requests import RecallQuery, decode_recall
from nomemory.server.faults import Fault, Reason, Violation, bad_field
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.v1 import recall_service_pb2 as pb

OnStep = Callable[[Step], Awaitable[None]]
Ask = Callable[[str, RecallQuery, Skill, OnStep], Awaitable[RecallResult]]
"""Recalls for one user: `(user_id, query, skill, on_step)`."""
Build = Callable[[str, ContextRequest, float], Awaitable[BuiltContext]]
"""Builds a context for one user: `(user_id, request, timeout_s)`."""


async def _nothing_built(_user_id: str, _request: ContextRequest, _timeout_s: float) -> BuiltContext:
    """Return an empty context."""
    return BuiltContext()


@dataclass(frozen=True, slots=True)
class RecallService:
    """Serves `nomemory.v1.RecallService`.

    Attributes:
        ask: the recall itself, with its planner and where it reads from.
        skills: what a request may choose from.
        budget: the host's.
        spaces: what is searched by meaning; None where that is another server's.
        meters: count recalls that came to an answer.
        build: builds contexts.
    """

    ask: Ask
    skills: SkillLibrary
    budget: Budget
    settings: Settings
    spaces: ActiveSpace | None = None
    meters: Meters = field(default_factory=Meters)
    build: Build = _nothing_built
    full_name: str = "nomemory.v1.RecallService"

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by their short names. Each needs a scope, and exactly one bound user."""
        required = RequiredScopes(frozenset({Scope.RECALL}), binds_user=True)
        longest_s = _longest_s(self.budget)
        return {
            "Recall": ServedMethod(required, self.recall, min_deadline_s=longest_s),
            "StreamRecall": ServedMethod(required, self.stream_recall, min_deadline_s=longest_s),
            "BuildContext": ServedMethod(required, self.build_context),
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

    async def build_context(self, request: pb.BuildContextRequest, context: CallContext) -> pb.BuildContextResponse:
        """Select messages for a prompt."""
        user_id = context.bound_user()
        decoded = decode_context(request, self.settings, datetime.now(UTC))
        with _faults(), Audit(is_on=self.settings.server.audit_log).recalling(context) as retrieved:
            built = await self.build(user_id, decoded, _until_reply_s(context.remaining_s()))
            retrieved.messages = len(built.recent) + len(built.related)
        return context_reply(built)

    async def _asked(
        self, context: CallContext, user_id: str, query: RecallQuery, skill: Skill, on_step: OnStep
    ) -> RecallResult:
        with Audit(is_on=self.settings.server.audit_log).recalling(context) as retrieved:
            result = await self.ask(user_id, query, skill, on_step)
            retrieved.messages = len(result.evidence)
            self._note(result)
            return result

    def _note(self, result: RecallResult) -> None:
        limits = result.limits
        self.meters.count(catalog.RECALLS, result.verdict.value, limits.stop_reason.value)
        self.meters.observe(catalog.RECALL_ITERATIONS, limits.iterations)
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
    return budget.tightened(deadline_s=max(_SHORTEST_S, left_s * _SEARCHING), answer_s=_until_reply_s(left_s))


def _until_reply_s(left_s: float) -> float:
    """Return the seconds until the reply has to be written."""
    return max(_SHORTEST_S, left_s - min(_REPLY_S, left_s * _REPLY_SHARE))


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
        raise Fault(Reason.ERROR_REASON_INDEX_LAGGING, str(error)) from error
    except QueryServiceUnavailableError as error:
        message = "the query service does not answer"
        raise Fault(Reason.ERROR_REASON_QUERY_SERVICE_UNAVAILABLE, message, retry_after_s=1.0) from error
