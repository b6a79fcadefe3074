"""The chat model of recalls. Importing this takes half a second, so it is imported only where there is a model."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

from nomemory.recall.llm.client import ChatEndpoint, connect
from nomemory.recall.planning.llm import LlmPlanner
from nomemory.recall.synthesis.llm import LlmSynthesiser
from nomemory.server.settings import Settings


@dataclass(frozen=True, slots=True)
class RecallModel:
    """Makes the planner and the synthesiser of one recall."""

    endpoint: ChatEndpoint

    def planner(self) -> LlmPlanner:
        """Make a planner; it serves one recall."""
        return LlmPlanner(self.endpoint)

    def synthesiser(self) -> LlmSynthesiser:
        """Make a synthesiser; it serves one recall."""
        return LlmSynthesiser(self.endpoint)


def recall_model(settings: Settings, stack: AsyncExitStack) -> RecallModel:
    """Connect to the model that the settings name; closed with the stack."""
    key = settings.openai.api_key
    client = connect(settings.openai.base_url, key.get_secret_value() if key else None, settings.recall.model_timeout_s)
    stack.push_async_callback(client.close)
    return RecallModel(ChatEndpoint(client, settings.recall.model, timeout_s=settings.recall.model_timeout_s))
