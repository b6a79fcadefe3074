"""How what was deleted leaves the files (docs/operating.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class ErasureSettings(SettingsGroup):
    """How what was deleted leaves the files (docs/operating.md)."""

    model_config = variables("erase_")
    heading: ClassVar[str] = "Erasure"

    within_s: float = Field(
        86_400.0,
        gt=0,
        description="Seconds after which the bytes of a deleted, replaced or expired message are gone from every file. "
        "The work begins after half of it.",
    )
    retry_s: float = Field(
        60.0, gt=0, description="Most seconds after which the erasure of vectors is tried again that could not be done."
    )
    at_removals: int = Field(100_000, ge=1, description="Removed messages that have it begin at once.")
    batch_max: int = Field(500, ge=1, description="Most messages in a piece of it: between two pieces others go on.")
    pages_max: int = Field(1000, ge=1, description="Most pages of the log, of 4 KB, in a piece of it.")
    vacuum_max_bytes: int = Field(
        64_000_000,
        ge=0,
        description="A log up to this size is rewritten as a whole: some tenths of a second in which writes wait. A "
        "larger one is cleaned in pieces.",
    )
