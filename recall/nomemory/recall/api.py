"""Recall in one call, for programs that embed the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.recall.agent import RecallAgent
from nomemory.recall.llm.chat_model import ChatModel
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.question import Question
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.sufficiency import DEFAULT_RULE, EnoughRule
from nomemory.recall.planning.base import Planner
from nomemory.recall.recall_span import recall_in_span
from nomemory.recall.search.session import OnStep
from nomemory.recall.skills.loader import Skill
from nomemory.recall.tools.bound_tools import BoundTools
from nomemory.recall.tools.query_stub import Binding, QueryStub

__all__ = ["OnStep", "recall"]
_NO_SKILL: Final = Skill("none", "No skill: the rules alone.", "")
_DEFAULT_BUDGET: Final = Budget()


async def recall(  # noqa: PLR0913 - one door with many knobs, all of them optional and by keyword
    stub: QueryStub,
    user_id: str,
    question: Question,
    *,
    skill: Skill = _NO_SKILL,
    planner: Planner | None = None,
    model: ChatModel | None = None,
    budget: Budget = _DEFAULT_BUDGET,
    rule: EnoughRule = DEFAULT_RULE,
    on_step: OnStep | None = None,
    metadata: Sequence[tuple[str, str]] = (),
    at_least: str = "",
) -> RecallResult:
    """Answer a question about one user with evidence.

    Args:
        stub: a grpc.aio stub of QueryService, or anything in its form.
        user_id: the one user whose messages are read. The caller is responsible for it.
        question: what is asked, and when.
        skill: tunes planners that read skills.
        planner: serves this recall only, and goes on from the ranking; None: rules. If it fails, rules go on.
        model: reads what was found, looks up what is missing, and composes the view; None: rules. If it fails, rules
            take over. `budget.read_messages` says how much it reads.
        budget: what the recall may do.
        rule: how likely it must be that the log answers.
        on_step: awaited with each step as it happens.
        metadata: sent with every read.
        at_least: a write token; the recall waits, within its budget, until words and meaning have what it covers.

    Raises:
        QueryServiceUnavailableError: there is nothing to read from.
        EmbeddingRefusedError: the question's own vector does not fit what is read from.
        WriteTokenRefusedError: the write token is none of the log that is read from.
        IndexBehindError: what it covers does not become searchable in time.
    """
    binding = Binding(user_id, question.conversation_id, at_least, question.exclude_conversation_ids)
    embedded = (question.sought, question.embedding)
    tools = BoundTools(binding, stub, budget, question.now, metadata, embedded)
    agent = RecallAgent(tools, planner, model, budget, rule)
    return await recall_in_span(agent.run(question, skill, on_step), question, user_id)
