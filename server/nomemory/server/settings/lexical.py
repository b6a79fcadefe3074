"""How the lexical index is written."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class LexicalSettings(SettingsGroup):
    """How the lexical index is written."""

    model_config = variables("lexical_")
    heading: ClassVar[str] = "The lexical index"

    batch_max: int = Field(4000, ge=1, description="Most changes in one commit of the lexical index.")
    batch_bytes: int = Field(4_000_000, ge=1, description="Size of messages that is enough for one commit.")
    heap_bytes: int = Field(64_000_000, ge=15_000_000, description="Memory of the lexical index's writer.")
