"""How long calls, cursors and waits may take."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup


class TimingSettings(SettingsGroup):
    """How long calls, cursors and waits may take."""

    heading: ClassVar[str] = "Time"

    deadline_default_s: float = Field(30.0, gt=0, description="Deadline where a client sets none.")
    deadline_import_s: float = Field(3600.0, gt=0, description="The same, for ImportMessages and ExportMessages.")
    drain_s: float = Field(5.0, ge=0, description="How long calls in flight may finish after SIGTERM.")
    cursor_lifetime_s: float = Field(86_400.0, gt=0, description="How long a cursor can be used.")
    wait_poll_s: float = Field(0.005, gt=0, description="How often a waiting read looks whether its index is there.")
