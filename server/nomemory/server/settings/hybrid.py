"""What the hybrid search looks at (docs/quality.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class HybridSettings(SettingsGroup):
    """What the hybrid search looks at (docs/quality.md)."""

    model_config = variables("hybrid_")
    heading: ClassVar[str] = "The hybrid search"

    candidates_max: int = Field(
        256,
        ge=10,
        le=2000,
        description="Most messages that words propose for the ranking, that meaning does, and of many messages both.",
    )
    timeline_max: int = Field(
        1000, ge=0, le=10_000, description="A user with no more messages than this is ranked over all of them."
    )
    cache_bytes: int = Field(
        64_000_000,
        ge=0,
        description="About how many bytes of memory each process spends on what it has read of ranked messages.",
    )
    without: str = Field(
        "",
        description="Steps of the ranking that are left out, parted by spaces, to measure what they are worth.",
    )
