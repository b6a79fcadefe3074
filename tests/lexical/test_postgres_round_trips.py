"""How often a listing by words goes to PostgreSQL and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from lexical.shelf import message, query
from postgres import statements_of

from nomemory.server.cursor import Cursors, Listing
from nomemory.server.lexical.postgres_reader import PostgresLexicalIndex
from nomemory.server.lexical.postgres_words import words_of
from nomemory.server.log.postgres.connections import Database
from nomemory.server.log.postgres.migration import bring_forward
from nomemory.server.log.postgres.reader import PostgresLogReader
from nomemory.server.log.postgres.writer import PostgresLogWriter
from nomemory.server.log.protocol import OnConflict
from nomemory.server.message import EVERYTHING
from nomemory.server.reads.lexical_listing import LexicalListing
from nomemory.server.token_cipher import TokenCipher

TEXT = "火锅 cat zebra"


@asynccontextmanager
async def listing_over(url: str) -> AsyncIterator[LexicalListing]:
    """Open a log with some messages of one user, and list it by words."""
    database = Database(url)
    await bring_forward(database)
    async with AsyncExitStack() as stack:
        pool, log = database.pool(), PostgresLogReader(database)
        writer = PostgresLogWriter(
            database, queue_max=100, queue_max_bytes=1_000_000, announce=lambda: None, read_words=words_of
        )
        for close in (pool.close, log.close, writer.close):
            stack.push_async_callback(close)
        said = [message("u", f"火锅{' cat' * (n % 2)}", n)._replace(message_id=f"m{n}") for n in range(10)]
        await writer.write(said, on_conflict=OnConflict.REFUSE)
        yield LexicalListing(PostgresLexicalIndex(pool), log, Cursors(TokenCipher(b"k" * 32, "log"), 60.0), 1_000_000)


async def test_a_listing_takes_two_round_trips_a_further_page_one_and_a_write_token_none(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = statements_of(monkeypatch)
    async with listing_over(postgres_url) as listing:
        asked, frozen = query(TEXT), Listing("LexicalSearch", "u", TEXT, EVERYTHING)
        for turn in range(2):
            statements.clear()
            first = await listing.page(frozen, asked, 3, "")
            assert [item.message.message_id for item in first.items] == ["m9", "m7", "m5"]
            is_learned = turn > 0  # a connection learns the types of a statement when it has it first
            assert not first.behind
            assert len(statements) == 2 or not is_learned
            statements.clear()
            second = await listing.page(frozen, asked, 3, first.next_cursor)
            assert [item.message.message_id for item in second.items] == ["m3", "m1", "m8"]
            assert len(statements) == 1 or not is_learned
        statements.clear()
        assert await listing.reached("u", 10)
        assert not statements
