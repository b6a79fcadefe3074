"""Public function that runs a recall in the caller's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.recall.agent import RecallAgent
from nomemory.recall.llm.chat_model import ChatModel
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import DEFAULT_THRESHOLDS, SufficiencyThresholds
from nomemory.recall.planning.base import Planner
from nomemory.recall.recall_span import trace_recall
from nomemory.recall.search.session import OnStep
from nomemory.recall.skills.loader import Skill
from nomemory.recall.tools.bound_tools import BoundTools
from nomemory.recall.tools.query_stub import QueryStub, UserBinding

__all__ = ["OnStep", "recall"]
_NO_SKILL: Final = Skill("none", "No skill: the rules alone.", "")
_DEFAULT_BUDGET: Final = Budget()


async def recall(  # noqa: PLR0913 - the public function; most parameters are optional and keyword-only
    stub: QueryStub,
    user_id: str,
    question: Question,
    *,
    skill: Skill = _NO_SKILL,
    planner: Planner | None = None,
    model: ChatModel | None = None,
    budget: Budget = _DEFAULT_BUDGET,
    thresholds: SufficiencyThresholds = DEFAULT_THRESHOLDS,
    on_step: OnStep | None = None,
    metadata: Sequence[tuple[str, str]] = (),
    at_least: str = "",
) -> RecallResult:
    """Answer a question about one user, with quotes as evidence.

    Args:
        stub: a grpc.aio stub of QueryService, or a compatible object.
        user_id: the user whose messages are read. The caller must authorize access.
        question: the question, its time and, optionally, the current conversation.
        skill: the skill that configures the planner.
        planner: plans the searches after the ranking. Pass a new planner to each recall. If the planner is None or
            fails, `RulesPlanner` plans the searches.
        model: a chat model that reads the best messages, requests follow-up searches and composes the answer. If the
            model is None or fails, the answer quotes the best messages. `budget.read_messages` limits the number of
            messages that the model reads.
        budget: the limits for searches, messages and time.
        thresholds: verdict thresholds for answers without a model.
        on_step: an async callback that is awaited after each step.
        metadata: gRPC metadata to send with every read.
        at_least: a write token. The recall first waits until both indexes contain the write with this token.

    Raises:
        QueryServiceUnavailableError: the QueryService does not respond or rejects all reads.
        EmbeddingRejectedError: the service rejected the vector of the question.
        WriteTokenRejectedError: the write token belongs to another message log.
        IndexLaggingError: the indexes did not reach the write token in time.
    """
    binding = UserBinding(user_id, question.conversation_id, at_least, question.exclude_conversation_ids)
    embedded = (question.query_text, question.embedding)
    tools = BoundTools(binding, stub, budget, question.now, metadata, embedded)
    agent = RecallAgent(tools, planner, model, budget, thresholds)
    return await trace_recall(agent.run(question, skill, on_step), question, user_id)
