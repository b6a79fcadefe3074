"""The reranker as the rest of the server sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Reads a question and a message together, and says how well the one answers the other."""

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """Return how well each text answers, 0 to 1; None where that cannot be told now, or not in time."""
