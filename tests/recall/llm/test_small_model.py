"""A real OpenAI-compatible server with real weights: the contract holds, whatever so small a model says.

Takes some 15 seconds, on one core: it is asked once in each test. They are skipped, with the reason, where the model
cannot be installed.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from recall.llm.situations import NOW, STEP, found, said, situation

from nomemory.recall.llm.capabilities import AnswerFormat
from nomemory.recall.llm.client import ChatEndpoint, connect
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.memory_view import Section
from nomemory.recall.model.question import Question
from nomemory.recall.planning import llm
from nomemory.recall.planning.base import PlannerFailedError
from nomemory.recall.planning.llm import LlmPlanner
from nomemory.recall.planning.prompt import planner_prompt
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.base import SynthesiserFailedError
from nomemory.recall.synthesis.llm import LlmSynthesiser
from nomemory.recall.tools.definitions import TOOLS

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[3]
QUESTION = Question("Do I eat spicy food?", NOW)
SKILL = Skill("small", "for tests", "Search for the words of the question.")
NOT_INSTALLED = 3
PATIENCE_S = 240  # never needed; what is tested is not the time


@contextmanager
def gives_up(kind: type[Exception]) -> Iterator[None]:
    """Let the model's answers be unusable, and nothing else go wrong."""
    try:
        yield
    except kind as failure:
        if "cannot be used" not in str(failure):
            raise


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the model answers."""
    said_by_it = tmp_path_factory.mktemp("model") / "stderr"
    with (
        said_by_it.open("wb") as stderr,
        subprocess.Popen(
            [ROOT / "scripts" / "with_small_model"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        line = process.stdout.readline().strip() if process.stdout else ""
        if not line and process.wait(60) == NOT_INSTALLED:
            pytest.skip(f"the small model cannot be installed: {said_by_it.read_text()[-300:]}")
        assert line, said_by_it.read_text()[-2_000:]
        yield line
        if process.stdin:
            process.stdin.close()
        process.wait(30)


@pytest.fixture
async def model(url: str) -> AsyncIterator[ChatEndpoint]:
    """Our side of it. Few tokens: the smaller the model, the less it knows when to stop."""
    endpoint = ChatEndpoint(connect(url, None, PATIENCE_S), "small", timeout_s=PATIENCE_S, max_tokens=96)
    yield endpoint
    await endpoint.close()


async def test_a_turn_of_the_planner_gives_a_call_or_gives_up(
    model: ChatEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its instructions would take such a model ten times as long to read, and it does not follow them.
    monkeypatch.setattr(llm, "planner_prompt", lambda *given: replace(planner_prompt(*given), system="Plan a search."))
    planner = LlmPlanner(model, bad_answers_max=1)
    budget = Budget(deadline_s=PATIENCE_S)
    seen = said("I like tea.")
    with gives_up(PlannerFailedError):
        plan = await planner.plan(situation(QUESTION, steps=[STEP], ranked=seen, skill=SKILL, budget=budget))
        assert plan.stop or plan.calls[0].tool in TOOLS
    assert model.dialect.answer_format is AnswerFormat.SCHEMA


async def test_a_turn_of_the_synthesiser_gives_a_draft_or_gives_up(model: ChatEndpoint) -> None:
    findings = found("I never eat anything spicy.", "My sister loves chillies.")
    with gives_up(SynthesiserFailedError):
        draft = await LlmSynthesiser(model, tries=1, deadline_s=PATIENCE_S).draft(QUESTION, SKILL, findings)
        assert all(one.text and one.section in Section for one in draft.statements)
        assert {citation.message_id for one in draft.statements for citation in one.citations} <= {"m1", "m2"}
    assert model.dialect.answer_format is AnswerFormat.SCHEMA
