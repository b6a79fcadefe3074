"""An embedder around another."""

from __future__ import annotations

from nomemory.server.embedding.protocol import Embedder


class EmbedderWrapper:
    """The attributes of an `Embedder`, taken from the wrapped one."""

    def __init__(self, within: Embedder) -> None:
        self._within = within

    @property
    def kind(self) -> str:
        """The kind of the wrapped embedder."""
        return self._within.kind

    @property
    def model(self) -> str:
        """The model's name."""
        return self._within.model

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._within.dimension
