"""What was made or read last, kept within a bound of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Keeps values by their keys; those that were not used for the longest go first. Not for several threads.

    Args:
        most_bytes: about how much memory they may take together.
        weigh: says how much one takes, about. It is asked once.
    """

    def __init__(self, most_bytes: int, weigh: Callable[[V], int]) -> None:
        self._most_bytes = most_bytes
        self._weigh = weigh
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0

    @property
    def weight(self) -> int:
        """About how much memory they take."""
        return self._weight

    def get(self, key: K) -> V | None:
        """Return a value, if it is kept."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of one of the same key; one that is too much for itself is not kept."""
        self._weight -= self._kept.pop(key, (value, 0))[1]
        weight = self._weigh(value)
        self._kept[key] = value, weight
        self._weight += weight
        while self._weight > self._most_bytes:
            self._weight -= self._kept.popitem(last=False)[1][1]
