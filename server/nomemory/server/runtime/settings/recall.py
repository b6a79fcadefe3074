"""Settings for recalls."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import NonEmpty, SettingsGroup, map_fields_to_variables


class RecallSettings(SettingsGroup):
    """Settings of the planner and the limits of recalls (docs/recall.md)."""

    model_config = map_fields_to_variables("recall_")
    heading: ClassVar[str] = "Recall"

    skill_dirs: str = Field(
        "",
        description="Directories with recall skills, separated by `:`, which take precedence over the built-in skills.",
    )
    default_skill: str = Field("nomemory-recall-default", description="Skill of requests that do not name one.")
    planner: str = Field(
        "auto",
        description="Recall planner: `rules`, `llm`, or the name of an installed plugin. `auto` is `llm` if "
        "NOMEMORY_RECALL_MODEL is set, else `rules`.",
    )
    model: str = Field(
        "", description="Chat model of the `llm` planner, served by OPENAI_BASE_URL. Requires `nomemory[openai]`."
    )
    model_timeout_s: float = Field(20.0, gt=0, description="Time limit of a chat model request, in seconds.")
    context_messages: int = Field(
        100,
        ge=1,
        le=200,
        description="Maximum number of ranked messages in the prompt of the chat model. A search returns at most 50 "
        "messages; newer messages are added if the question asks for the current state.",
    )
    context_tokens: int = Field(
        4_000, ge=400, description="Maximum estimated number of tokens of the messages in the prompt."
    )
    max_iterations: int = Field(3, ge=1, description="Maximum number of search rounds per recall.")
    max_tool_calls: int = Field(12, ge=1, description="Maximum number of tool calls per recall.")
    evidence_messages: int = Field(
        6, ge=1, description="Number of evidence messages if the request does not specify it."
    )
    deadline_s: float = Field(10.0, gt=0, description="Time limit of the search phase of a recall, in seconds.")
    sufficiency_threshold: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Minimum estimated probability that the messages answer the question for the verdict `SUPPORTED`. "
        "Applies only without a chat model.",
    )
    sufficiency_possible: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Minimum estimated probability for the verdict `POSSIBLE`. Below this value, the verdict is "
        "`INSUFFICIENT` and the view is empty. Limited to NOMEMORY_RECALL_SUFFICIENCY_THRESHOLD. Applies only without "
        "a chat model.",
    )
    upstream: str = Field("", description="HOST:PORT of the QueryService that `serve --recall-only` reads from.")
    upstream_tls: bool = Field(
        default=False,
        description="Whether to connect to the upstream QueryService over TLS. Required if the service is on another "
        "machine.",
    )
    upstream_tls_ca: NonEmpty[Path] | None = Field(
        None,
        description="CA certificates (PEM file) of the upstream QueryService. If unset, the server uses the "
        "default CA certificates of gRPC.",
    )
    upstream_api_key: NonEmpty[SecretStr] | None = Field(
        None, description="API key for calls to the upstream QueryService."
    )
    quote_threshold: float = Field(
        0.18,
        gt=0,
        lt=1,
        description="Minimum estimated probability that a message is evidence. The rules quote the top message, and "
        "further messages above this value. A lower value quotes more messages.",
    )
