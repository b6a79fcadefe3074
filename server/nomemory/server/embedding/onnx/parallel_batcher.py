"""Parallel computation of batches whose items have similar lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from nomemory.server.embedding.text_batches import split_batches

_Input = TypeVar("_Input")
_Output = TypeVar("_Output")


class ParallelBatcher:
    """Computes batches in threads, which run in parallel because ONNX Runtime releases the GIL.

    Args:
        concurrent_batches: the number of batches to compute in parallel.
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
        """Group items of similar length into batches, compute them, and return the results in the order of the items.

        Args:
            items: the items to compute, such as texts or windows.
            lengths: the length of each item, in any unit.
            batch_length_max: the maximum total length of a batch after its items are padded to the longest one.
            compute: returns the results of the items in a batch.
        """
        positions = list(split_batches(lengths, batch_length_max))
        batched_items = [[items[position] for position in batch] for batch in positions]
        run = map if self._threads is None or len(positions) == 1 else self._threads.map
        results: dict[int, _Output] = {}
        for batch, outputs in zip(positions, run(compute, batched_items), strict=True):
            results.update(zip(batch, outputs, strict=True))
        return [results[position] for position in range(len(items))]
