"""The check of the log for damage."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class CheckSettings(SettingsGroup):
    """The check of the log for damage."""

    model_config = variables("log_check_")
    heading: ClassVar[str] = "The check of the message log"

    interval_s: float = Field(
        86_400.0, gt=0, description="Seconds between two looks at the whole log for damage; the first is at the start."
    )
    pause_s: float = Field(0.05, ge=0, description="Seconds of rest after each 256 messages that are looked at.")
