"""Texts of like length are embedded together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.embedding.text_batches import batches


def test_texts_of_like_length_come_together_the_longest_first() -> None:
    assert list(batches([3, 40, 4, 41, 5], 100)) == [[3, 1], [4, 2, 0]]


@given(st.lists(st.integers(0, 600)), st.integers(1, 300))
def test_every_text_is_in_one_batch_that_is_not_too_large(lengths: list[int], most: int) -> None:
    found = list(batches(lengths, most))
    assert sorted(place for batch in found for place in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= most
