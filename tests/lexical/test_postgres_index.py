"""Tests for the PostgreSQL lexical index: equal results to Tantivy, and no influence of other users."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.claims import Claim, claims
from lexical.engine import open_tantivy_index
from lexical.oracle import expected, listed, random_messages
from lexical.postgres_index import engine_of
from lexical.shelf import LATEST, Shelf, message, query
from postgres import PrivatePostgres, statements_of

from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.token_cipher import TokenCipher
from nomemory.server.search.cursor import CursorCodec, Listing
from nomemory.server.search.lexical import window
from nomemory.server.search.lexical.postgres import reader as postgres_reader
from nomemory.server.search.lexical.postgres import search as postgres_search
from nomemory.server.search.lexical.postgres import term_counts as postgres_counts
from nomemory.server.search.lexical.postgres import token_columns as postgres_columns
from nomemory.server.search.lexical.postgres.reader import PostgresLexicalIndex
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.search.lexical.protocol import RankPosition
from nomemory.server.search.lexical.tantivy import reader as tantivy_reader
from nomemory.server.search.lexical_listing import LexicalListing
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.reader import PostgresLogReader
from nomemory.server.store.postgres.schema import upgrade_schema
from nomemory.server.store.postgres.writer import PostgresLogWriter
from nomemory.server.store.results import OnConflict

_COLLIDING = 3


@pytest.fixture
def postgres_shelf(postgres: PrivatePostgres) -> Iterator[Shelf]:
    with closing(Shelf(engine_of(postgres), Path())) as shelf:
        yield shelf


@pytest.fixture(scope="module")
def colliding(postgres: PrivatePostgres) -> Iterator[Shelf]:
    """Make all terms collide in a few keys."""
    lookup_keys = postgres_columns.compute_lookup_keys
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_search, "FEW", 0)  # so that lookups use the keys
        patch.setattr(
            postgres_columns,
            "compute_lookup_keys",
            lambda user, texts: [key % _COLLIDING for key in lookup_keys(user, texts)],
        )
        with closing(Shelf(engine_of(postgres), Path())) as shelf:
            shelf.put(*random_messages(120))
            yield shelf


@given(claims)
def test_key_collision_does_not_change_results(colliding: Shelf, claim: Claim) -> None:
    parsed_query = query(claim.text)
    assert listed(colliding.hits("u", parsed_query)) == expected(colliding, claim, EVERYTHING)


def test_key_collision_does_not_change_postings(colliding: Shelf) -> None:
    mine = {number: each.content for number, each in colliding.messages.items() if each.user_id == "u"}
    for term, posting in zip(
        ["火锅", "cat"], colliding.read_postings("u", ["火锅", "cat"], EVERYTHING, 100), strict=True
    ):
        standing = [number for number, content in mine.items() if term in content]
        assert (posting.count, sorted(posting.sequences)) == (len(standing), standing)


_WORDS = [
    "火锅",
    "不吃辣",
    "辣的",
    "开会",
    "我",
    "cats",
    "cat",
    "running",
    "the",
    "C++",
    "don't",
    "5:30",
    "小明",
    "Ann",
]
_TEXTS = st.lists(st.sampled_from([*_WORDS, "，", "？", "。", " ", "not", "OR"]), min_size=1, max_size=12)
_MESSAGES = st.lists(
    st.tuples(
        _TEXTS.map(lambda pieces: "".join(f"{piece} " if piece.isascii() else piece for piece in pieces)),
        st.integers(0, 5),
        st.sampled_from(Role),
        st.sampled_from(["", "Ann", "小明"]),
    ),
    min_size=1,
    max_size=12,
)
_QUERIES = st.one_of(
    _TEXTS.map(" ".join),
    _TEXTS.map(lambda pieces: f'"{"".join(pieces)}"'),
    st.lists(st.sampled_from(_WORDS), min_size=2, max_size=3).map(" AND ".join),
    st.lists(st.sampled_from(_WORDS), min_size=2, max_size=4).map(lambda words: f"What did {' '.join(words)} and I?"),
    st.lists(st.sampled_from(_WORDS), min_size=2, max_size=3).map(lambda words: f"{words[0]} -{words[1]}"),
    claims.map(lambda claim: claim.text),
)
_FILTERS = st.sampled_from([EVERYTHING, Filter(role=Role.USER), Filter(since_us=2)])
_NAMES = count()


@pytest.fixture(scope="module")
def both(postgres: PrivatePostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shelf, Shelf]]:
    """An index of each engine with the same messages."""
    with (
        closing(Shelf(open_tantivy_index, tmp_path_factory.mktemp("lexical"))) as tantivy,
        closing(Shelf(engine_of(postgres), Path())) as postgres_shelf,
    ):
        yield tantivy, postgres_shelf


@given(_MESSAGES, st.lists(_QUERIES, min_size=1, max_size=6), st.integers(1, 5), st.sampled_from([2, 5, 100]), _FILTERS)
def test_order_and_scores_equal_those_of_tantivy(
    both: tuple[Shelf, Shelf],
    stored: Sequence[tuple[str, int, Role, str]],
    texts: Sequence[str],
    limit: int,
    size: int,
    message_filter: Filter,
) -> None:
    user = f"user-{next(_NAMES)}"
    for shelf in both:
        shelf.put(*(message(user, text, ts, role, name=name) for text, ts, role, name in stored))
    for parsed_query in map(query, texts):
        with pytest.MonkeyPatch.context() as patch:
            for module in (window, tantivy_reader, postgres_reader):
                patch.setattr(module, "WINDOW", size)
            ranking, other = (
                shelf.freeze(user, parsed_query, message_filter)._replace(applied_sequence=LATEST) for shelf in both
            )
        assert ranking == other
        start: RankPosition | None = None
        for _ in range(3):
            page, postgres_page = (
                listed(shelf.page(user, parsed_query, ranking, message_filter, start, limit)) for shelf in both
            )
            assert page == postgres_page
            start = RankPosition(*page[-1][:2]) if page else start


def test_term_weights_of_large_users_are_estimated_from_the_latest_messages(postgres_shelf: Shelf) -> None:
    """The estimates are close to the exact weights and independent of other users."""
    shelf, said_much = postgres_shelf, postgres_counts.SAMPLING_THRESHOLD + 1000
    chance = random.Random(6)  # noqa: S311 - the same texts each time
    texts = ["火锅 cat", "火锅 dog", "cat", "dog"]
    shelf.put(*(message("u", chance.choice(texts) + " zebra" * (n == 5), n) for n in range(said_much)))
    parsed_query = query("火锅 cat zebra")
    weights = shelf.weigh("u", parsed_query)
    shares = [sum(word in each.content for each in shelf.messages.values()) / said_much for word in ("火锅", "cat")]
    exactly = [math.log(1 / share) for share in shares]
    assert weights[:2] == pytest.approx(exactly, abs=0.15)
    assert weights[2] == round(math.log(1 + (said_much - 0.5) / 1.5) * 64) / 64
    shelf.put(*(message("v", "火锅 cat zebra", n) for n in range(50)))
    assert shelf.weigh("u", parsed_query) == weights
    best, *_ = shelf.page("u", parsed_query, shelf.freeze("u", parsed_query), limit=1)
    assert "zebra" in shelf.messages[best.sequence].content
    posting, rare = shelf.read_postings("u", ["火锅", "zebra"], EVERYTHING, 100)
    assert posting.count == pytest.approx(shares[0] * said_much, rel=0.1)
    assert (rare.count, rare.sequences.tolist()) == (1, [6])


async def test_jit_compilation_is_off(postgres_url: str) -> None:
    """JIT compilation takes ten times as long as the search of a typical user."""
    connection = await Database(postgres_url).connect()
    assert await connection.fetchval("SHOW jit") == "off"
    await connection.close()


TEXT = "火锅 cat zebra"


@asynccontextmanager
async def listing_over(url: str) -> AsyncIterator[LexicalListing]:
    """Open a log with messages of one user and a lexical listing of them."""
    database = Database(url)
    await upgrade_schema(database)
    async with AsyncExitStack() as stack:
        pool, log = database.create_pool(), PostgresLogReader(database)
        writer = PostgresLogWriter(
            database,
            queue_max=100,
            queue_max_bytes=1_000_000,
            announce=lambda: None,
            extract_tokens=build_token_columns,
        )
        for close in (pool.close, log.close, writer.close):
            stack.push_async_callback(close)
        messages = [message("u", f"火锅{' cat' * (n % 2)}", n)._replace(message_id=f"m{n}") for n in range(10)]
        await writer.write(messages, on_conflict=OnConflict.REFUSE)
        yield LexicalListing(
            PostgresLexicalIndex(pool), log, CursorCodec(TokenCipher(b"k" * 32, "log"), 60.0), 1_000_000
        )


async def test_listing_takes_two_round_trips_and_each_further_page_one(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = statements_of(monkeypatch)
    async with listing_over(postgres_url) as listing:
        parsed_query, frozen = query(TEXT), Listing("LexicalSearch", "u", TEXT, EVERYTHING)
        for turn in range(2):
            statements.clear()
            first = await listing.read_page(frozen, parsed_query, 3, "")
            assert [item.message.message_id for item in first.items] == ["m9", "m7", "m5"]
            is_learned = turn > 0  # a connection fetches the types of a statement on its first use
            assert not first.index_lagging
            assert len(statements) == 2 or not is_learned
            statements.clear()
            second = await listing.read_page(frozen, parsed_query, 3, first.next_cursor)
            assert [item.message.message_id for item in second.items] == ["m3", "m1", "m8"]
            assert len(statements) == 1 or not is_learned
        statements.clear()
        assert await listing.has_applied("u", 10)
        assert not statements
