"""The lexical index in PostgreSQL: part of the message log's own tables, and so up to date with every write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from nomemory.server.faults import index_unavailable
from nomemory.server.lexical.postgres.condition import Statement
from nomemory.server.lexical.postgres.counts import counting, posting, weighing
from nomemory.server.lexical.postgres.search import PostgresSearch
from nomemory.server.lexical.protocol import LexicalHit, Posting, Weighing, WordSearch
from nomemory.server.lexical.query.tree import Query
from nomemory.server.lexical.rarity import weights_of
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.expiry import Lifetimes
from nomemory.server.log.position import bucket_of
from nomemory.server.log.postgres.connections import ERRORS, RETRY_AFTER_S, Pool
from nomemory.server.message import Filter

if TYPE_CHECKING:
    import asyncpg

_SIZES_KEPT: Final = 16_384
"""Users of whom is remembered about how many messages they have: it decides how a search goes, not what it finds."""

_SEQUENCE: Final = "SELECT latest_sequence FROM users WHERE bucket = $1 AND user_id = $2"


class PostgresLexicalIndex:
    """Implements LexicalIndex over the tables of a log in PostgreSQL. Each call is one round trip.

    Args:
        pool: connections to it, which the index does not close.
        lifetimes: what has expired is not found.
        damage: told of what is found to be damaged.
    """

    lags: Final = False

    def __init__(self, pool: Pool, lifetimes: Lifetimes | None = None, damage: LogDamage | None = None) -> None:
        self._pool = pool
        self._lifetimes = lifetimes or Lifetimes()
        self._damage = damage or LogDamage()
        self._sizes = LRUCache[str, int](_SIZES_KEPT)

    async def applied(self, user_id: str) -> int:
        """Return the sequence of the latest change to this user's messages: everything is searchable."""
        rows = await self._fetch(Statement(_SEQUENCE, (bucket_of(user_id), user_id)))
        return int(rows[0][0]) if rows else 0

    async def weigh(self, user_id: str, query: Query) -> Weighing:
        """Return the latest sequence and the weights, as of one moment."""
        ((sequence, messages, counts, borne),) = await self._fetch(weighing(user_id, query))
        self._sizes[user_id] = messages
        return Weighing(sequence, weights_of(query, messages, counts, borne))

    async def search(self, asked: WordSearch) -> list[LexicalHit]:
        """Return the best versions with `sequence <= pinned`, with their messages.

        Raises:
            Fault: INDEX_UNAVAILABLE, or STORAGE_UNAVAILABLE if one of the messages is damaged.
        """
        if asked.limit < 1:
            return []
        user_id = asked.user_id
        statement = PostgresSearch(asked, self._lifetimes, self._sizes.get(user_id)).statement()
        if statement is None:
            return []
        rows = await self._fetch(statement)
        found = self._damage.sound_messages(
            user_id,
            [
                (user_id, message_id, ts_us, wire, sequence, crc, taker)
                for _, ts_us, sequence, message_id, wire, crc, taker in rows
            ],
        )
        hits = [
            LexicalHit(score, message.ts_us, message.sequence, message)
            for (score, *_), message in zip(rows, found, strict=True)
        ]
        hits.sort(key=lambda hit: (hit.score, hit.ts_us), reverse=True)
        return hits

    async def total(self, user_id: str, narrowed: Filter) -> int:
        """Count the messages of a user that a filter admits."""
        rows = await self._fetch(counting(user_id, narrowed))
        return int(rows[0][0])

    async def postings(self, user_id: str, terms: Sequence[str], narrowed: Filter, most: int) -> list[Posting]:
        """Return where terms stand, all of them in one round trip."""
        if not terms:
            return []
        rows = await self._fetch(posting(user_id, terms, narrowed, most))
        return [Posting(int(number), _sequences(number, sequences, most)) for number, sequences in rows]

    async def refresh(self) -> None:
        """Do nothing: the view never lags."""

    async def close(self) -> None:
        """Do nothing: whoever opened the pool closes it."""

    async def _fetch(self, statement: Statement) -> list[asyncpg.Record]:
        with _answering():
            async with self._pool.connection() as connection:
                return await connection.fetch(statement.text, *statement.values)


@contextmanager
def _answering() -> Iterator[None]:
    """Turn errors of the database into a fault that says when to retry. Their words stay here."""
    try:
        yield
    except ERRORS as error:
        cause = getattr(error, "sqlstate", None) or type(error).__name__
        raise index_unavailable("the lexical index cannot be read", cause, RETRY_AFTER_S) from error


def _sequences(number: int, sequences: Sequence[int] | None, most: int) -> NDArray[np.int64]:
    return np.array(sequences if sequences and number <= most else (), dtype=np.int64)
