"""Construction of a RecallService that reads through a QueryService stub."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.sufficiency import SufficiencyThresholds
from nomemory.recall.skills import loader as skill_loader
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.api.services.chat_model_monitor import ChatModelMonitor
from nomemory.server.api.services.recall_runner import Metadata, RecallRunner
from nomemory.server.api.services.recall_service import RecallService
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_planner import choose_planner, uses_chat_model
from nomemory.server.search.semantic.active_index import ActiveSpace

_ANCHORS: Final = 3
"""Number of top messages whose neighbors a recall reads."""

_NEIGHBORS_AFTER: Final = 0
"""Number of messages read after an anchor."""

_NEIGHBORS_BEFORE: Final = 8
"""Number of messages read before an anchor."""

_EVIDENCE_CHARS: Final = 16_000
"""Maximum length of an evidence message, in characters. Longer messages are truncated."""

_RESULT_CHARS: Final = 12_000
"""Maximum length of the result of a tool call, in characters."""

_RESULT_ITEMS: Final = 50
"""Maximum number of messages in the result of a tool call."""


_HERE = Path(skill_loader.__file__)
_BUILT_IN_SKILLS = (_HERE.parents[2] / "skills", _HERE.parents[4] / "skills")
"""Folders of the built-in skills in an installed package and in a source checkout."""


def make_recall_service(
    settings: Settings,
    stub: QueryStub,
    metadata: Metadata,
    stack: AsyncExitStack,
    *,
    meters: Meters,
    faults: ActiveFaults,
    spaces: ActiveSpace | None = None,
) -> RecallService:
    """Construct the service.

    The service sends `metadata` with every call of `stub`. `spaces` is None if another server embeds questions.

    Raises:
        RecallSettingsError: the recall settings are incomplete or contradictory.
    """
    strategy = choose_planner(settings, stack)
    recall = settings.recall
    possible = min(recall.sufficiency_possible, recall.sufficiency_threshold)
    thresholds = SufficiencyThresholds(recall.sufficiency_threshold, possible, recall.quote_threshold)
    runner = RecallRunner(stub, metadata, strategy, thresholds, ChatModelMonitor(meters, faults))
    skills, budget = create_skill_library(settings), build_recall_budget(settings)
    return RecallService(runner.run, skills, budget, settings, spaces, meters, runner.build_context)


def list_skill_folders(settings: Settings) -> list[Path]:
    """Return the skill folders in search order, which begins with the configured folders."""
    configured = [Path(folder) for folder in settings.recall.skill_dirs.split(os.pathsep) if folder]
    return configured + [folder for folder in _BUILT_IN_SKILLS if folder.is_dir()]


def create_skill_library(settings: Settings) -> skill_loader.SkillLibrary:
    """Return the library of the recall skills in all skill folders."""
    return skill_loader.SkillLibrary(list_skill_folders(settings), settings.recall.default_skill)


def build_recall_budget(settings: Settings) -> Budget:
    """Return the limits on a recall that the settings configure."""
    return Budget(
        iterations=settings.recall.max_iterations,
        tool_calls=settings.recall.max_tool_calls,
        evidence_messages=settings.recall.evidence_messages,
        deadline_s=settings.recall.deadline_s,
        model_s=settings.recall.model_timeout_s,
        read_messages=settings.recall.context_messages if uses_chat_model(settings) else 0,
        read_tokens=settings.recall.context_tokens,
        result_items=_RESULT_ITEMS,
        result_chars=_RESULT_CHARS,
        evidence_chars=_EVIDENCE_CHARS,
        neighbors_before=_NEIGHBORS_BEFORE,
        neighbors_after=_NEIGHBORS_AFTER,
        anchors=_ANCHORS,
    )
