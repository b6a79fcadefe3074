"""Cursors are followed exactly as far as somebody asked."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from nomemory.cli.paging import Paging, follow


@dataclass(frozen=True)
class Numbers:
    """A page of a listing of numbers."""

    items: list[int]
    next_cursor: str


class Listing:
    """Numbers from 0 on, in pages; the cursor is the next of them. Remembers what was asked for."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.sizes: list[int] = []

    def page(self, size: int, cursor: str) -> Numbers:
        self.sizes.append(size)
        start = int(cursor or 0)
        end = min(start + size, self._length)
        return Numbers(list(range(start, end)), str(end) if end < self._length else "")


@given(length=st.integers(0, 60), limit=st.integers(0, 70), page_size=st.integers(1, 20))
def test_the_limit_is_met_exactly_and_the_cursor_goes_on_from_there(length: int, limit: int, page_size: int) -> None:
    listing = Listing(length)
    pages = list(follow(listing.page, Paging(limit, page_size, "")))
    expected = min(limit or length, length)
    assert [number for page in pages for number in page.items] == list(range(expected))
    assert pages[-1].next_cursor == (str(expected) if expected < length else "")
    assert max(listing.sizes) <= page_size


def test_a_cursor_decides_where_paging_begins() -> None:
    (page,) = follow(Listing(10).page, Paging(5, 500, "7"))
    assert page.items == [7, 8, 9]
