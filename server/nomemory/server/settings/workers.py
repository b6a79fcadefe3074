"""The processes that answer calls (docs/operating.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class WorkerSettings(SettingsGroup):
    """The processes that answer calls (docs/operating.md)."""

    model_config = variables("workers_")
    heading: ClassVar[str] = "Several processes"

    count: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes that answer calls, over one data directory.",
        validation_alias="NOMEMORY_WORKERS",
    )
    start_s: float = Field(
        10.0, gt=0, description="How long the start waits for all of them; those that are late join later."
    )
    memory_bytes: int = Field(
        4 << 30,
        ge=0,
        description="Most memory of each of them but the first (pages of files not counted); beyond it the process is "
        "replaced. 0: no bound.",
    )
    connection_s: float = Field(
        300.0,
        ge=1,
        le=86_400,
        description="Where there are several: age at which a connection is ended, without hurting calls, so that "
        "clients spread over them again.",
    )
