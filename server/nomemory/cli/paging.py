"""Following cursors as far as somebody asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

PAGE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Paging:
    """How much of a listing to read: `limit` items (0: all), from a cursor on."""

    limit: int
    cursor: str

    def follow(self, fetch: Callable[..., Any], items: str = "items") -> Iterator[Any]:
        """Fetch page after page until the limit or the end.

        Args:
            fetch: takes `page_size` and `cursor`, and returns a page with a `next_cursor`. The last page is asked for
                short, so that its cursor continues exactly there.
            items: what a page calls what is on it.
        """
        cursor, remaining = self.cursor, self.limit
        while True:
            page = fetch(page_size=min(PAGE_MAX, remaining) if self.limit else PAGE_MAX, cursor=cursor)
            yield page
            cursor, remaining = page.next_cursor, remaining - len(getattr(page, items))
            if not cursor or (self.limit and remaining <= 0):
                return

    def whole(self, fetch: Callable[..., Any], items: str) -> Any:  # noqa: ANN401 - whatever kind of page
        """Do the same, and return all pages as one."""
        whole, *others = self.follow(fetch, items)
        for page in others:
            whole.MergeFrom(page)
            whole.next_cursor = page.next_cursor
        return whole
