"""The endpoint of the embedder `openai` and of the chat model."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.settings.group import SettingsGroup, variables


class OpenAISettings(SettingsGroup):
    """The endpoint of the embedder `openai` and of the chat model."""

    model_config = variables("openai_")
    heading: ClassVar[str] = "The OpenAI-compatible endpoint"

    base_url: str | None = Field(
        None,
        validation_alias="OPENAI_BASE_URL",
        description="OpenAI-compatible endpoint. Unset: OpenAI's own.",
    )
    api_key: SecretStr | None = Field(
        None,
        validation_alias="OPENAI_API_KEY",
        description="Key of that endpoint; any text where it wants none.",
    )
