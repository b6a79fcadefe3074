"""Tests for the chat client with a real OpenAI-compatible server and a small model.

The test takes a few seconds on one core and sends one request. It is skipped with a reason if the model cannot be
installed.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC
from pathlib import Path

import pytest

from nomemory.recall.llm.client import ChatEndpoint, create_client
from nomemory.recall.llm.endpoint_dialect import AnswerFormat
from nomemory.recall.llm.fence import fence_items
from nomemory.recall.llm.json_answer import InvalidAnswerError
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.model.memory_view import Section
from nomemory.recall.reading.answer import LOOKUP_TOOLS, build_answer_schema, parse_answer

pytestmark = pytest.mark.timeout(600, func_only=True)
"""The fixture may have to download the model first, which no limit counts."""

ROOT = Path(__file__).parents[3]
NOT_INSTALLED = 3
PATIENCE_S = 240  # a generous limit, because the test does not measure time


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the model server."""
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
    """A client with a low token limit, because such models rarely complete the answer, and each token takes time."""
    async with create_client(url, None, PATIENCE_S) as client:
        yield ChatEndpoint(client, "small", timeout_s=PATIENCE_S, max_tokens=48)


async def test_model_answer_matches_the_schema_or_is_rejected(model: ChatEndpoint) -> None:
    # The real instructions would take such a model ten times as long to read, and it does not follow them.
    messages = fence_items(
        [{"id": "m1", "text": "I never eat anything spicy."}, {"id": "m2", "text": "My sister does."}]
    )
    prompt = Prompt(
        "Answer from the messages.", f"Do I eat spicy food?\n{messages}", "memory_view", build_answer_schema()
    )
    reply = await model.ask(prompt)
    assert reply.text.startswith("{"), "the server enforces the schema"
    with suppress(InvalidAnswerError):
        answer = parse_answer(reply.text, str, UTC)
        assert all(statement.text and statement.section in Section for statement in answer.draft.statements)
        assert {call.tool for call in answer.calls} <= set(LOOKUP_TOOLS)
    assert model.dialect.answer_format is AnswerFormat.SCHEMA
