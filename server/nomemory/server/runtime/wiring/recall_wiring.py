"""Constructs a RecallService from the settings, over a stub of a QueryService."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.sufficiency import EnoughRule
from nomemory.recall.skills import loader as skill_loader
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.api.services.recall_agent import Metadata, RecallHost
from nomemory.server.api.services.recall_service import RecallService
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_planner import answers_with_model, choose_planner
from nomemory.server.search.semantic.active_index import ActiveSpace

_ANCHORS: Final = 3
"""Anchors whose neighbours a recall reads."""

_NEIGHBORS_AFTER: Final = 0
"""Messages read after an anchor."""

_NEIGHBORS_BEFORE: Final = 8
"""Messages read before an anchor."""

_EVIDENCE_CHARS: Final = 16_000
"""Maximum characters of an evidence message; the rest is cut."""

_RESULT_CHARS: Final = 12_000
"""Maximum characters that one tool call shows to a planner."""

_RESULT_ITEMS: Final = 50
"""Maximum messages of one tool call."""


_HERE = Path(skill_loader.__file__)
_SHIPPED_SKILLS = (_HERE.parents[2] / "skills", _HERE.parents[4] / "skills")
"""The shipped skills: in an installed package, and in a checkout."""


def recall_service(
    settings: Settings,
    stub: QueryStub,
    metadata: Metadata,
    stack: AsyncExitStack,
    spaces: ActiveSpace | None = None,
    meters: Meters | None = None,
) -> RecallService:
    """Construct the service.

    Args:
        settings: the configuration.
        stub: reads the messages.
        metadata: sent with each call of the stub.
        stack: closes the connection to a chat model.
        spaces: this server's vector index; None: another server embeds questions.
        meters: counts; None: nothing does.

    Raises:
        RecallSettingsError: the settings are incomplete or contradict each other.
    """
    answered_by = choose_planner(settings, stack)
    recall = settings.recall
    possible = min(recall.sufficiency_possible, recall.sufficiency)
    rule = EnoughRule(recall.sufficiency, possible, recall.quoted)
    host = RecallHost(stub, metadata, answered_by, rule)
    skills, budget = skill_library(settings), host_budget(settings)
    return RecallService(host.ask, skills, budget, settings, spaces, meters or Meters(), host.build_context)


def skill_folders(settings: Settings) -> list[Path]:
    """Return the folders of skills, the operator's own before the shipped ones."""
    own = [Path(folder) for folder in settings.recall.skill_dirs.split(os.pathsep) if folder]
    return own + [folder for folder in _SHIPPED_SKILLS if folder.is_dir()]


def skill_library(settings: Settings) -> skill_loader.SkillLibrary:
    """Return the skills that recalls can be steered by."""
    return skill_loader.SkillLibrary(skill_folders(settings), settings.recall.default_skill)


def host_budget(settings: Settings) -> Budget:
    """Return the limits of one recall."""
    return Budget(
        iterations=settings.recall.max_iterations,
        tool_calls=settings.recall.max_tool_calls,
        evidence_messages=settings.recall.evidence_messages,
        deadline_s=settings.recall.deadline_s,
        model_s=settings.recall.model_timeout_s,
        read_messages=settings.recall.context_messages if answers_with_model(settings) else 0,
        read_tokens=settings.recall.context_tokens,
        result_items=_RESULT_ITEMS,
        result_chars=_RESULT_CHARS,
        evidence_chars=_EVIDENCE_CHARS,
        neighbors_before=_NEIGHBORS_BEFORE,
        neighbors_after=_NEIGHBORS_AFTER,
        anchors=_ANCHORS,
    )
