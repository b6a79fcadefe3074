"""Tests that closing a stream of steps cancels the recall."""

from __future__ import annotations

import asyncio

from nomemory.recall.model.result import RecallResult
from nomemory.recall.model.step import RecallStep
from nomemory.recall.skills.loader import Skill, SkillLibrary
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.caller import Caller
from nomemory.server.api.identity.user_binding import BoundUser
from nomemory.server.api.services.recall_service import OnStep, RecallService
from nomemory.server.api.validation.recall_requests import RecallQuery
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_wiring import build_recall_budget, list_skill_folders
from nomemory.v1 import recall_service_pb2 as pb


async def test_closing_the_stream_cancels_the_recall() -> None:
    cancelled = asyncio.Event()

    async def ask(_user: str, _query: RecallQuery, _skill: Skill, on_step: OnStep) -> RecallResult:
        await on_step(RecallStep(1, "first"))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError("it went on")

    settings = Settings.from_environment()
    skills = SkillLibrary(list_skill_folders(settings), settings.recall.default_skill)
    service = RecallService(ask, skills, build_recall_budget(settings), settings)
    deadline = asyncio.get_running_loop().time() + 10
    context = CallContext("id", deadline, Caller("test", frozenset()), BoundUser("u", "token"))
    request = pb.StreamRecallRequest(question="anything")
    stream = service.stream_recall(request, context)
    assert (await anext(stream)).step.thought == "first"
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    async with asyncio.timeout(5):
        await cancelled.wait()
