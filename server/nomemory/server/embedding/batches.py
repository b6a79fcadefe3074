"""Which texts are embedded together: those of like length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batches(lengths: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """Yield the places of the texts of each batch, longest texts first.

    Args:
        lengths: of the texts, in any unit.
        most: what a batch may have when all are filled up to the longest; a text that is longer has its own.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batch and (len(batch) + 1) * lengths[batch[0]] > most:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
