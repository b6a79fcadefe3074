"""Tests for the batching of texts by length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.embedding.text_batches import split_batches


def test_texts_are_batched_by_length_longest_first() -> None:
    assert list(split_batches([3, 40, 4, 41, 5], 100)) == [[3, 1], [4, 2, 0]]


@given(st.lists(st.integers(0, 600)), st.integers(1, 300))
def test_every_text_is_in_exactly_one_batch_within_the_limit(lengths: list[int], max_characters: int) -> None:
    text_batches = list(split_batches(lengths, max_characters))
    assert sorted(index for batch in text_batches for index in batch) == list(range(len(lengths)))
    for batch in text_batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= max_characters
