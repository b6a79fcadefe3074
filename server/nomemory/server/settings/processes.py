"""How a server watches its other processes (docs/operating.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class ProcessSettings(SettingsGroup):
    """How a server watches its other processes (docs/operating.md)."""

    model_config = variables("process_")
    heading: ClassVar[str] = "Watching processes"

    heartbeat_s: float = Field(1.0, gt=0, description="How often each process is asked for a heartbeat.")
    patience_s: float = Field(
        5.0, gt=0, description="How long a process may answer none and do nothing before it is killed and replaced."
    )
    busy_patience_s: float = Field(60.0, gt=0, description="The same, for a process that works but answers none.")
    memory_bytes: int = Field(
        4 << 30,
        ge=0,
        description="Most memory of an indexer, the vector engine or an embedder (pages of files not counted), and the "
        "largest file of the vector engine; beyond it the process is replaced. 0: no bound.",
    )
