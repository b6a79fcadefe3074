"""Tests for the division of a client deadline among searches, the model and the reply."""

from __future__ import annotations

import asyncio

import pytest

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.result import RecallResult
from nomemory.recall.skills.loader import Skill, SkillLibrary
from nomemory.recall.tools.query_stub import QueryServiceUnavailableError
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.caller import LOCAL
from nomemory.server.api.identity.user_binding import BoundUser
from nomemory.server.api.services.recall_service import OnStep, RecallService
from nomemory.server.api.validation.recall_requests import RecallQuery
from nomemory.server.faults import Fault
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_wiring import build_recall_budget, list_skill_folders
from nomemory.v1 import recall_service_pb2 as pb


async def budget_within(left_s: float) -> Budget:
    """Return the budget of a recall with a client deadline."""
    settings, seen = Settings.from_environment(), list[Budget]()

    async def ask(_user_id: str, query: RecallQuery, _skill: Skill, _on_step: OnStep) -> RecallResult:
        seen.append(query.budget)
        raise QueryServiceUnavailableError

    skills = SkillLibrary(list_skill_folders(settings), settings.recall.default_skill)
    service = RecallService(ask, skills, build_recall_budget(settings), settings)
    give_up = asyncio.get_running_loop().time() + left_s
    with pytest.raises(Fault):
        await service.recall(
            pb.RecallRequest(question="x"), CallContext("r", give_up, LOCAL, BoundUser("lin", "x-user-id"))
        )
    return seen[0]


async def test_short_deadline_reserves_time_for_the_reply() -> None:
    budget = await budget_within(5.0)
    assert 0 < budget.deadline_s <= 3.0
    assert 0 < budget.answer_s <= 4.5


async def test_long_deadline_does_not_exceed_the_host_limit() -> None:
    budget, host = await budget_within(1_000.0), build_recall_budget(Settings.from_environment())
    assert budget.deadline_s == host.deadline_s
    assert 990 < budget.answer_s < 1_000


def test_recall_without_a_deadline_uses_the_configured_model_timeout() -> None:
    settings = Settings.from_environment(recall_model="slow", recall_model_timeout_s=100.0, recall_max_iterations=2)
    skills = SkillLibrary(list_skill_folders(settings), settings.recall.default_skill)
    with_model = RecallService(never, skills, build_recall_budget(settings), settings).methods()["Recall"]
    assert with_model.min_deadline_s >= 2 * 100.0 + settings.recall.deadline_s
    rules = Settings.from_environment()
    assert RecallService(never, skills, build_recall_budget(rules), rules).methods()["Recall"].min_deadline_s == 0


async def never(_user_id: str, _query: RecallQuery, _skill: Skill, _on_step: OnStep) -> RecallResult:
    raise QueryServiceUnavailableError


def test_model_context_size_follows_the_settings() -> None:
    budget = build_recall_budget(
        Settings.from_environment(recall_model="m", recall_context_messages=7, recall_context_tokens=900)
    )
    assert (budget.read_messages, budget.read_tokens) == (7, 900)
