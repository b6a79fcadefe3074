"""Compute batches of texts, several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from nomemory.server.embedding.text_batches import batches

_Input = TypeVar("_Input")
_Output = TypeVar("_Output")


class ParallelBatcher:
    """Compute batches in threads: ONNX Runtime releases the interpreter's lock.

    Args:
        concurrent_batches: the number of batches that are computed at the same time.
    """

    def __init__(self, concurrent_batches: int) -> None:
        self._threads = ThreadPoolExecutor(concurrent_batches, "batch") if concurrent_batches > 1 else None

    def map(
        self,
        items: Sequence[_Input],
        lengths: Sequence[int],
        batch_length_max: int,
        compute: Callable[[Sequence[_Input]], Iterable[_Output]],
    ) -> list[_Output]:
        """Return the result of each item, in the order of the items. Items of similar length share a batch."""
        positions = list(batches(lengths, batch_length_max))
        batched_items = [[items[position] for position in batch] for batch in positions]
        run = map if self._threads is None or len(positions) == 1 else self._threads.map
        results: dict[int, _Output] = {}
        for batch, outputs in zip(positions, run(compute, batched_items), strict=True):
            results.update(zip(batch, outputs, strict=True))
        return [results[position] for position in range(len(items))]
