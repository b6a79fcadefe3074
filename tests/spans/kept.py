"""A recorder that keeps what it is given."""

from __future__ import annotations

from nomemory.spans.span import FinishedSpan


class Kept:
    """Keeps spans."""

    def __init__(self, *, shows_content: bool = False) -> None:
        self.shows_content = shows_content
        self.spans: list[FinishedSpan] = []

    def record(self, finished: FinishedSpan) -> None:
        """Keep a span."""
        self.spans.append(finished)
