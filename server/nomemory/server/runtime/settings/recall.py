"""What one recall may do, and what it recalls with."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import Filled, Fixed, SettingsGroup, variables


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
    iterations: Fixed[int] = 3
    """Most rounds of searching in a recall."""
    tool_calls: Fixed[int] = 12
    """Most calls of tools in a recall."""
    evidence_messages: Fixed[int] = 6
    """Messages in a recall's evidence where the request does not say how many."""
    evidence_chars: Fixed[int] = 16_000
    """Longest content of an evidence message; more is cut."""
    deadline_s: float = Field(10.0, gt=0, description="How long the searching of a recall may take.")
    result_items: Fixed[int] = 50
    """Most messages that one call of a tool may bring."""
    result_chars: Fixed[int] = 12_000
    """Most characters that one call may show to a planner."""
    neighbors_before: Fixed[int] = 8
    """Messages taken before an anchor."""
    neighbors_after: Fixed[int] = 0
    """Messages taken after an anchor."""
    anchors: Fixed[int] = 3
    """Anchors whose neighbours are taken."""
    sufficiency: float = Field(
        0.5,
        ge=0,
        le=1,
        description="How likely the log must be to answer a question that names one of several speakers.",
    )
    sufficiency_named: Fixed[float] = 0.45
    """The same where people with names speak, and the question names none of them."""
    sufficiency_unnamed: Fixed[float] = 0.22
    """The same where a user talks with an assistant."""
    sufficiency_words_only: Fixed[float] = 0.75
    """The same where words alone tell: meaning cannot be searched, or not by the local embedder."""
    quoted: Fixed[float] = 0.11
    """How likely a message must be to answer, to be quoted beside the first. Less quotes more."""
    query_target: str = Field("", description="QueryService that `serve --recall-only` reads from, HOST:PORT.")
    query_tls: bool = Field(default=False, description="Reach that QueryService over TLS; needed beyond this machine.")
    query_tls_ca: Filled[Path] | None = Field(
        None, description="Certificates (PEM) to trust there. Unset: those that gRPC trusts."
    )
    query_key: Filled[SecretStr] | None = Field(None, description="API key of this process at that QueryService.")
