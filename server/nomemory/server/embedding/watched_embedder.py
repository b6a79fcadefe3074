"""An embedder of which it is known how long its queries have failed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.unavailable import is_about_texts
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrapper import EmbedderWrapper
from nomemory.server.faults import Fault, Reason

_FAILURES_MIN = 3
"""So many in a row are a failing model: fewer may be chance, however far apart."""


class WatchedEmbedder(EmbedderWrapper):
    """An `Embedder` around another.

    Attributes:
        failing_s: seconds between the first and the latest of the queries that failed in a row; 0 if they were few.
            What embeds documents does not fail, and what asks for patience does not either.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._failed_at: float | None = None
        self._failures = 0
        self.failing_s = 0.0

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        try:
            vector = await self._within.embed_query(text)
        except Fault as fault:
            if fault.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE and is_about_texts(fault):
                self._note_failure()
            raise
        self._note_success()
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        vectors = await self._within.embed_documents(texts)
        self._note_success()
        return vectors

    async def close(self) -> None:
        """Stop the model."""
        await self._within.close()

    def _note_failure(self) -> None:
        now = time.monotonic()
        self._failed_at = self._failed_at or now
        self._failures += 1
        if self._failures >= _FAILURES_MIN:
            self.failing_s = now - self._failed_at

    def _note_success(self) -> None:
        self._failed_at, self._failures, self.failing_s = None, 0, 0.0
