"""Following cursors as far as somebody asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

PAGE_MAX: Final = 500
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Paging:
    """How much of a listing to read: `limit` items (0: all), from a cursor on, in pages of `page_size`."""

    limit: int
    page_size: int
    cursor: str


class Page(Protocol):
    """What pages have in common."""

    @property
    def items(self) -> Sized:
        """What is on the page."""

    @property
    def next_cursor(self) -> str:
        """What continues the listing; empty at its end."""


@dataclass(frozen=True, slots=True)
class Part(Generic[Item]):
    """A part of a listing, and what continues it; empty at its end."""

    items: Sequence[Item]
    next_cursor: str


PageType = TypeVar("PageType", bound=Page)


def follow(fetch: Callable[[int, str], PageType], paging: Paging) -> Iterator[PageType]:
    """Fetch page after page until the limit or the end.

    Args:
        fetch: takes a page size and a cursor.
        paging: how much to read. The last page is asked for short, so that its cursor continues exactly there.
    """
    cursor, remaining = paging.cursor, paging.limit
    while True:
        page = fetch(_size(paging, remaining), cursor)
        yield page
        cursor, remaining = page.next_cursor, remaining - len(page.items)
        if not cursor or (paging.limit and remaining <= 0):
            return


def read(fetch: Callable[[int, str], Part[Item]], paging: Paging) -> Part[Item]:
    """Do the same, and return all pages as one."""
    pages = list(follow(fetch, paging))
    return Part([item for page in pages for item in page.items], pages[-1].next_cursor)


def _size(paging: Paging, remaining: int) -> int:
    return min(paging.page_size, remaining) if paging.limit else paging.page_size
