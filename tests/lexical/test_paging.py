"""Tests that pages of a ranked listing return every message once, in order, during writes and deletions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.engine import Engine
from lexical.shelf import Shelf, ShelfLog, message, query

from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.token_cipher import TokenCipher
from nomemory.server.search.cursor import CursorCodec, Listing
from nomemory.server.search.lexical import window
from nomemory.server.search.lexical.postgres import reader as postgres_reader
from nomemory.server.search.lexical.tantivy import reader as tantivy_reader
from nomemory.server.search.lexical_listing import LexicalListing, RankedPage
from nomemory.server.store.protocol import LogReader

CONTENTS = ["火锅", "火锅 辣椒", "辣椒 cat？", "cat 火锅", "面条"]
TEXTS = ["火锅 辣椒 cat", "火锅", "火锅 OR cat", "辣椒 NOT cat", "cat AND (火锅 OR 辣椒)"]

contents = st.lists(st.tuples(st.sampled_from(CONTENTS), st.integers(0, 9)), max_size=25)


class Reading:
    """Reads listings of a new user."""

    def __init__(self, shelf: Shelf, user: str) -> None:
        self.shelf, self.user, self.log = shelf, user, ShelfLog(shelf)
        cursors = CursorCodec(TokenCipher(b"k" * 32, "log"), 3600)
        self._listing = LexicalListing(shelf.reader_index, cast("LogReader", self.log), cursors, 1_000_000)

    def page(self, text: str, size: int, cursor: str) -> RankedPage:
        listing = Listing("LexicalSearch", self.user, text, EVERYTHING)
        return self.shelf.now(self._listing.read_page(listing, query(text), size, cursor))

    def put(self, contents: Sequence[tuple[str, int]]) -> None:
        if contents:
            self.shelf.put(*(message(self.user, content, ts) for content, ts in contents))

    def ids(self, text: str) -> list[str]:
        """Return the complete listing in one page."""
        return [item.message.message_id for item in self.page(text, 10_000, "").items]


@pytest.fixture(scope="module")
def shelf(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with closing(Shelf(engine, tmp_path_factory.mktemp("lexical"))) as opened:
        yield opened


@given(contents, st.sampled_from(TEXTS), st.lists(st.integers(1, 7), min_size=1), st.sampled_from([3, 100]), st.data())
def test_pages_return_every_message_once_during_writes_and_deletions(
    shelf: Shelf, stored: list[tuple[str, int]], text: str, sizes: list[int], window_size: int, data: st.DataObject
) -> None:
    reading = Reading(shelf, f"user-{shelf.sequence}")
    reading.put(stored)
    with pytest.MonkeyPatch.context() as patch:
        for module in (window, tantivy_reader, postgres_reader):
            patch.setattr(module, "WINDOW", window_size)
        everything, cursor, pages = reading.ids(text), "", list[str]()
        deleted, truncated = set[str](), reading.page(text, 10_000, "").truncated
        while True:
            page = reading.page(text, sizes[len(pages) % len(sizes)], cursor)
            assert page.truncated == truncated
            pages += [item.message.message_id for item in page.items]
            cursor = page.next_cursor
            if not cursor:
                break
            reading.put(data.draw(contents))
            left = sorted(number for number in map(_number, everything) if number in shelf.messages)
            for number in data.draw(st.lists(st.sampled_from(left), max_size=2, unique=True)) if left else []:
                deleted.add(f"m{number}")
                shelf.remove(number)
    assert len(pages) == len(set(pages))
    assert [each for each in everything if each not in deleted] == [each for each in pages if each not in deleted]
    assert set(pages) <= set(everything)


def test_messages_deleted_from_the_log_are_skipped(shelf: Shelf) -> None:
    """A lagging index still contains more deleted messages than one index search returns."""
    reading = Reading(shelf, "lagging")
    if not shelf.reader_index.can_lag:
        pytest.skip("the index is the log")
    reading.put([("火锅 辣椒", n // 40) for n in range(120)])
    numbers = sorted(number for number, each in shelf.messages.items() if each.user_id == "lagging")
    reading.log.deleted.update(numbers[2:-2])
    page = reading.page("火锅 辣椒", 3, "")
    last = reading.page("火锅 辣椒", 3, page.next_cursor)
    ids = [item.message.message_id for item in (*page.items, *last.items)]
    assert sorted(map(_number, ids)) == [*numbers[:2], *numbers[-2:]]
    assert [len(page.items), last.next_cursor] == [3, ""]


def _number(message_id: str) -> int:
    return int(message_id.removeprefix("m"))
