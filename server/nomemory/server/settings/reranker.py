"""What reads the best messages of a hybrid search once more (docs/embedders.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class RerankerSettings(SettingsGroup):
    """What reads the best messages of a hybrid search once more (docs/embedders.md)."""

    model_config = variables("reranker_")
    heading: ClassVar[str] = "The reranker"

    model: str = Field(
        "",
        description="Cross-encoder that scores the best messages of HybridSearch: a directory with `model.onnx` and "
        "`tokenizer.json`, or a name that the package fastembed knows. Empty: none.",
        validation_alias="NOMEMORY_RERANKER",
    )
    weight: float = Field(0.5, ge=0, le=10, description="What its score from 0 to 1 adds, times this. Not measured.")
    timeout_s: float = Field(0.5, gt=0, description="How long a search waits for it; then it goes on without.")
    messages_max: int = Field(20, ge=1, le=200, description="Most messages of a search that it scores.")
    chars: int = Field(1_000, ge=50, le=2_000, description="Most characters of a message that it reads.")
    threads: int = Field(1, ge=1, le=64, description="Threads of its process.")
