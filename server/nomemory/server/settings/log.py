"""What waits for the log's writer."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class LogSettings(SettingsGroup):
    """What waits for the log's writer."""

    model_config = variables("write_")
    heading: ClassVar[str] = "The message log"

    queue_max: int = Field(256, ge=1, description="Most batches that wait for the log's writer.")
    queue_max_bytes: int = Field(64_000_000, ge=1, description="Most bytes of messages in those batches.")
