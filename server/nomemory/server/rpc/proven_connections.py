"""Which connections have brought a whole request. Where room is short, they go before those that have not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class ProvenConnections:
    """Remembers connections by their names.

    Args:
        most: how many it remembers; the oldest is forgotten first, until its next request.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._proven: dict[str, None] = {}
        self._held: Counter[str] = Counter()

    def prove(self, connection: str) -> None:
        """Note that a whole request has come."""
        if connection in self._proven:
            return
        if len(self._proven) >= self._most:
            del self._proven[next(iter(self._proven))]
        self._proven[connection] = None

    @contextmanager
    def holding(self, connection: str) -> Iterator[None]:
        """Remember a connection while a long call of its own goes on, however many others come."""
        self._held[connection] += 1
        try:
            yield
        finally:
            self._held[connection] -= 1
            if not self._held[connection]:
                del self._held[connection]

    def __contains__(self, connection: str) -> bool:
        return connection in self._proven or connection in self._held

    def __iter__(self) -> Iterator[str]:
        return iter({**self._proven, **self._held})
