"""A scripted chat endpoint for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from recall.llm.chat_script import ChatScript, running_script

from nomemory.recall.llm.client import ChatEndpoint, create_client


@pytest.fixture
def script() -> Iterator[ChatScript]:
    """An endpoint with scripted replies."""
    with running_script() as running:
        yield running


@pytest.fixture
async def endpoint(script: ChatScript) -> AsyncIterator[ChatEndpoint]:
    """A client of the scripted endpoint."""
    async with create_client(script.url, "key", 10) as client:
        yield ChatEndpoint(client, "model", timeout_s=10, max_tokens=99)
