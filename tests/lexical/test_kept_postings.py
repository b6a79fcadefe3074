"""The cache of postings: within its room, and never of another shelf."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.lexical.protocol import Posting
from nomemory.server.lexical.tantivy.postings import KeptPostings

ROOM = 20_000
lookups = st.tuples(st.sampled_from("abcd"), st.sets(st.integers(0, 40).map(str), max_size=12), st.integers(0, 4_000))


def posting(shelf: str, term: str, size: int) -> Posting:
    return Posting(ord(shelf) * 100 + int(term), np.zeros(size, dtype=np.int64))


@given(st.lists(lookups, max_size=30))
def test_what_is_kept_is_of_its_shelf_and_fits_the_room(some: list[tuple[str, set[str], int]]) -> None:
    kept = KeptPostings(ROOM)
    for shelf, terms, size in some:
        known = kept.of(shelf)
        assert all(one.count == ord(shelf) * 100 + int(term) for term, one in known.items())
        kept.keep(shelf, {term: posting(shelf, term, size) for term in terms if term not in known})
        assert sum(one.sequences.nbytes for each in "abcd" for one in kept.of(each).values()) <= ROOM


def test_what_was_used_least_lately_goes_first() -> None:
    kept = KeptPostings(ROOM)
    for shelf in "abc":
        kept.keep(shelf, {"1": posting(shelf, "1", 500)})
    assert kept.of("a")
    kept.keep("d", {"1": posting("d", "1", 500)})
    kept.keep("d", {"2": posting("d", "2", 500)})
    assert not kept.of("b")
    assert kept.of("a")
    kept.keep("d", {"3": posting("d", "3", 3_000)})
    assert not kept.of("a")
