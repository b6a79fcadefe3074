"""How long messages are kept."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class RetentionSettings(SettingsGroup):
    """How long messages are kept."""

    model_config = variables("retention_")
    heading: ClassVar[str] = "Retention"

    days: float = Field(
        0.0,
        ge=0,
        le=3_650_000,
        description="Greatest age of a message in days, counted from its `ts`: what is older is gone from every read "
        "and deleted soon after. 0: messages stay until their own `expire_ts`.",
    )
    sweep_s: float = Field(5.0, gt=0, description="Seconds between two looks for messages that have expired.")
    sweep_batch_max: int = Field(500, ge=1, description="Most expired messages that one commit deletes.")
