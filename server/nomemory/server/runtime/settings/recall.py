"""What one recall may do, and what it recalls with."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import Filled, SettingsGroup, variables


class RecallSettings(SettingsGroup):
    """What one recall may do, and what it recalls with."""

    model_config = variables("recall_")
    heading: ClassVar[str] = "Recall"

    skills: str = Field("", description="Folders of recall skills, parted by `:`; searched before the shipped ones.")
    skill: str = Field("nomemory-recall-default", description="Skill where a request names none.")
    planner: str = Field(
        "auto",
        description="Who goes on from a recall's ranking: `rules`, `llm`, or the name of a planner of another package. "
        "`auto`: `llm` where NOMEMORY_RECALL_MODEL is set, else `rules`.",
    )
    model: str = Field("", description="Chat model for `llm`, behind OPENAI_BASE_URL. Needs `nomemory[openai]`.")
    model_timeout_s: float = Field(20.0, gt=0, description="How long the chat model may take for one answer.")
    read_messages: int = Field(40, ge=1, le=50, description="Most messages of the ranking that the chat model reads.")
    read_tokens: int = Field(4_000, ge=400, description="Most tokens that these may take, as estimated.")
    iterations: int = Field(3, ge=1, description="Maximum rounds of searching in a recall.")
    tool_calls: int = Field(12, ge=1, description="Maximum tool calls in a recall.")
    evidence_messages: int = Field(
        6, ge=1, description="Messages in a recall's evidence, unless the request says how many."
    )
    deadline_s: float = Field(10.0, gt=0, description="How long the searching of a recall may take.")
    sufficiency: float = Field(
        0.5,
        ge=0,
        le=1,
        description="How likely the log must be to answer a question that names one of several speakers.",
    )
    upstream: str = Field("", description="QueryService that `serve --recall-only` reads from, HOST:PORT.")
    upstream_tls: bool = Field(default=False, description="Reach that QueryService over TLS; needed beyond this machine.")
    upstream_tls_ca: Filled[Path] | None = Field(
        None, description="Certificates (PEM) to trust there. Unset: those that gRPC trusts."
    )
    upstream_api_key: Filled[SecretStr] | None = Field(None, description="API key of this process at that QueryService.")
    quoted: float = Field(
        0.11,
        gt=0,
        lt=1,
        description="Without a model: how likely a message must be evidence to be quoted beside the first. A lower "
        "value quotes more.",
    )
