"""Answer questions about one user from stored messages, with quotes as evidence.

Call `recall` with a QueryService stub. Only the names exported here are public.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from nomemory.recall.api import OnStep, recall
from nomemory.recall.errors import RecallError
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import (
    Evidence,
    MessageRelation,
    RetrievedMessage,
    RetrievedMessages,
    SearchFindings,
)
from nomemory.recall.model.memory_view import (
    Citation,
    Conflict,
    DraftCitation,
    DraftConflict,
    DraftStatement,
    DraftView,
    MemoryView,
    Section,
    Statement,
    Verdict,
)
from nomemory.recall.model.question import Question, Role, Turn
from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.search_limits import SearchLimits, StopReason
from nomemory.recall.model.step import RecallStep
from nomemory.recall.model.sufficiency import SufficiencyThresholds
from nomemory.recall.planning.base import Plan, Planner, PlannerFailedError, PlanningState, ToolCall
from nomemory.recall.skills.folder import SkillFault, SkillInvalidError, SkillNotFoundError
from nomemory.recall.skills.loader import Skill, SkillLibrary
from nomemory.recall.tools.query_stub import (
    EmbeddingRejectedError,
    IndexLaggingError,
    QueryServiceUnavailableError,
    QueryStub,
    WriteTokenRejectedError,
)
from nomemory.text.time_range import TimeRange

__all__ = [
    "Budget",
    "Citation",
    "Conflict",
    "DraftCitation",
    "DraftConflict",
    "DraftStatement",
    "DraftView",
    "EmbeddingRejectedError",
    "Evidence",
    "IndexLaggingError",
    "MemoryView",
    "MessageRelation",
    "OnStep",
    "Plan",
    "Planner",
    "PlannerFailedError",
    "PlanningState",
    "QueryServiceUnavailableError",
    "QueryStub",
    "Question",
    "RecallError",
    "RecallResult",
    "RecallStep",
    "RetrievedMessage",
    "RetrievedMessages",
    "Role",
    "SearchFindings",
    "SearchLimits",
    "Section",
    "Skill",
    "SkillFault",
    "SkillInvalidError",
    "SkillLibrary",
    "SkillNotFoundError",
    "Statement",
    "StopReason",
    "SufficiencyThresholds",
    "TimeRange",
    "ToolCall",
    "Turn",
    "Verdict",
    "WriteTokenRejectedError",
    "__version__",
    "recall",
]

__version__: Final = version("nomemory")
