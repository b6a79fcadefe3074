"""The lexical index in PostgreSQL, which consists of columns of the message table and is always up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from nomemory.server.faults import build_index_unavailable_fault
from nomemory.server.message_filter import Filter
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.idf import compute_query_weights
from nomemory.server.search.lexical.postgres.conditions import Statement
from nomemory.server.search.lexical.postgres.search import build_newest_half_statement, build_search_statement
from nomemory.server.search.lexical.postgres.term_counts import (
    build_count_statement,
    build_frequencies_statement,
    build_postings_statement,
)
from nomemory.server.search.lexical.protocol import FrozenRanking, LexicalHit, LexicalSearch, Posting
from nomemory.server.search.lexical.window import WINDOW, RankingWindow, count_window_terms, exceeds_window
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.postgres.connections import ERRORS, RETRY_AFTER_S, ConnectionPool
from nomemory.server.store.retention import RetentionPolicy

if TYPE_CHECKING:
    import asyncpg

_CACHED_SIZES: Final = 16_384
"""Number of users whose approximate message count is cached. The count affects the query plan, not the result."""

_SEQUENCE: Final = "SELECT latest_sequence FROM users WHERE bucket = $1 AND user_id = $2"


class PostgresLexicalIndex:
    """Implements LexicalIndex with the tables of a message log in PostgreSQL.

    Each call takes one round trip to the database. A call of `freeze` takes two round trips if the matches exceed the
    ranking window.

    Args:
        pool: the connection pool, which the index does not close.
        retention: the retention policy; expired messages are not returned.
        damage_registry: the registry to which damaged messages are reported.
    """

    can_lag: Final = False

    def __init__(
        self,
        pool: ConnectionPool,
        retention: RetentionPolicy | None = None,
        damage_registry: DamageRegistry | None = None,
    ) -> None:
        self._pool = pool
        self._retention = retention or RetentionPolicy()
        self._damage_registry = damage_registry or DamageRegistry()
        self._sizes = LRUCache[str, int](_CACHED_SIZES)

    async def read_applied_sequence(self, user_id: str) -> int:
        """Return the sequence number of the latest change of this user's messages.

        Every change up to this sequence number is applied, because a change is searchable as soon as it is committed.
        """
        rows = await self._fetch_rows(Statement(_SEQUENCE, (compute_bucket(user_id), user_id)))
        return int(rows[0][0]) if rows else 0

    async def freeze(self, user_id: str, query: Query, message_filter: Filter) -> FrozenRanking:
        """Return the user's latest sequence number, and the weights and the window of a query."""
        ((sequence, messages, frequencies, boosted),) = await self._fetch_rows(
            build_frequencies_statement(user_id, query)
        )
        self._sizes[user_id] = messages
        ranking = FrozenRanking(sequence, compute_query_weights(query, messages, frequencies, boosted))
        if not exceeds_window(query, frequencies, messages):
            return ranking
        rows = await self._fetch_rows(build_newest_half_statement(user_id, message_filter, WINDOW))
        terms = count_window_terms(query, ranking.weights, frequencies)
        return ranking._replace(window=RankingWindow(terms, rows[0][0])) if rows else ranking

    async def search(self, search: LexicalSearch) -> list[LexicalHit]:
        """Return the best hits from the position `search.start` on, with their messages.

        Raises:
            Fault: INDEX_UNAVAILABLE, or STORAGE_UNAVAILABLE if a message is damaged.
        """
        if search.limit < 1:
            return []
        user_id = search.user_id
        statement = build_search_statement(search, self._retention, self._sizes.get(user_id))
        if statement is None:
            return []
        rows = await self._fetch_rows(statement)
        messages = self._damage_registry.verify_messages(
            user_id,
            [
                (user_id, message_id, ts_us, wire, sequence, crc, retracted_by)
                for _, ts_us, sequence, message_id, wire, crc, retracted_by in rows
            ],
        )
        hits = [
            LexicalHit(score, message.ts_us, message.sequence, message)
            for (score, *_), message in zip(rows, messages, strict=True)
        ]
        hits.sort(key=lambda hit: (hit.score, hit.ts_us), reverse=True)
        return hits

    async def count_messages(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages of a user that pass a filter."""
        rows = await self._fetch_rows(build_count_statement(user_id, message_filter))
        return int(rows[0][0])

    async def read_postings(
        self, user_id: str, terms: Sequence[str], message_filter: Filter, max_sequences: int
    ) -> list[Posting]:
        """Return the postings of all terms, in one round trip to the database."""
        if not terms:
            return []
        rows = await self._fetch_rows(build_postings_statement(user_id, terms, message_filter, max_sequences))
        return [Posting(int(count), _to_sequence_array(count, sequences, max_sequences)) for count, sequences in rows]

    async def refresh(self) -> None:
        """Do nothing, because the index never lags."""

    async def close(self) -> None:
        """Do nothing, because the owner of the pool closes it."""

    async def _fetch_rows(self, statement: Statement) -> list[asyncpg.Record]:
        with _translate_errors():
            async with self._pool.connection() as connection:
                return await connection.fetch(statement.text, *statement.values)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert database errors to INDEX_UNAVAILABLE with a retry delay.

    The fault does not contain the database's message.
    """
    try:
        yield
    except ERRORS as error:
        cause = getattr(error, "sqlstate", None) or type(error).__name__
        raise build_index_unavailable_fault(
            "the lexical index cannot be read: retry later", cause, RETRY_AFTER_S
        ) from error


def _to_sequence_array(count: int, sequences: Sequence[int] | None, max_sequences: int) -> NDArray[np.int64]:
    return np.array(sequences if sequences and count <= max_sequences else (), dtype=np.int64)
