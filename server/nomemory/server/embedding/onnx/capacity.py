"""How much of the machine a model may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class Capacity:
    """How a process runs a model.

    Attributes:
        threads: that compute a batch.
        at_once: batches that are computed at the same time. Unlike threads of one batch they never wait for each other.
        keeps_plans: whether it is remembered, for each length of text, where numbers go: that saves a query some
            percent, and costs 20 MB where lengths are many.
    """

    threads: int = 1
    at_once: int = 1
    keeps_plans: bool = True


class SideBySide:
    """Computes batches, some of them at once: a model that computes lets go of the interpreter.

    Args:
        at_once: how many.
    """

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, "batch") if at_once > 1 else None

    def results(self, compute: Callable[[_In], _Out], batches: Sequence[_In]) -> Iterable[_Out]:
        """Return what is computed of each batch, in their order."""
        if self._threads is None or len(batches) == 1:
            return map(compute, batches)
        return self._threads.map(compute, batches)
