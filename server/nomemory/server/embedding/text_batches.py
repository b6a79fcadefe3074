"""Prepare texts for an embedder: remove unreadable characters, and batch texts of similar length."""

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


def readable(text: str) -> str:
    """Replace NUL, where a model would stop reading, and halves of surrogate pairs, which cannot be encoded."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
