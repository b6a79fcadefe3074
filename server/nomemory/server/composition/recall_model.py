"""The chat model of recalls. Importing this takes half a second, so it is imported only where there is a model."""

from __future__ import annotations

from contextlib import AsyncExitStack

from nomemory.recall.llm.client import ChatEndpoint, connect
from nomemory.server.settings import Settings


def recall_model(settings: Settings, stack: AsyncExitStack) -> ChatEndpoint:
    """Connect to the model that the settings name; closed with the stack."""
    key = settings.openai.api_key
    client = connect(settings.openai.base_url, key.get_secret_value() if key else None, settings.recall.model_timeout_s)
    stack.push_async_callback(client.close)
    return ChatEndpoint(client, settings.recall.model, timeout_s=settings.recall.model_timeout_s)
