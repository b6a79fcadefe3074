"""Preparation of texts for an embedder: replacement of unencodable characters, and batches of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def split_batches(lengths: Sequence[int], max_padded_length: int) -> Iterator[Sequence[int]]:
    """Yield batches of the indexes of texts, longest texts first.

    Args:
        lengths: the length of each text, in any unit.
        max_padded_length: the maximum total length of a batch after its texts are padded to the longest one. A text
            that is longer than the maximum gets a separate batch.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_padded_length:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def replace_unencodable(text: str) -> str:
    """Replace NUL, which truncates the input of some models, and unpaired surrogates, which UTF-8 cannot encode."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
