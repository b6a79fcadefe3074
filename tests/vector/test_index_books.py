"""The books of an index that several servers fill: what is told in time counts, what is told too late does not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from postgres import PrivatePostgres, count, fresh_schema

from nomemory.server.log.position import BUCKETS, FeedPosition, bucket_of
from nomemory.server.log.postgres.connections import Database
from nomemory.server.log.postgres.migration import bring_forward
from nomemory.server.vector.bucket_claims import Progress, SetAside, UserReached
from nomemory.server.vector.postgres_index_books import PostgresIndexBooks
from nomemory.server.vector.postgres_shared_index import PostgresSharedIndex

COLLECTION, LEASE_S = "vectors-8", 60.0
ANN = bucket_of("ann")


class Books:
    """The books of one collection, begun by one server that holds every bucket."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(url)
        self.known = PostgresSharedIndex(self.database, COLLECTION, LEASE_S)
        self.ours = self.known.claims()
        self.other: PostgresIndexBooks = self.known.claims()
        self.generations = dict[int, int]()

    async def begin(self) -> None:
        await bring_forward(self.database)
        await self.ours.begin("log", None, _nothing)
        self.generations = {claim.bucket: claim.generation for claim in await self.ours.claim(BUCKETS)}

    async def close(self) -> None:
        await self.ours.leave()
        await self.other.leave()
        await self.known.close()


async def _nothing() -> None:
    """Empty an index that is empty."""


def further(sequence: int, checkpoint: int = 0) -> Progress:
    """Return that ann is further than her bucket."""
    return Progress(FeedPosition.at(checkpoint), (UserReached(ANN, "ann", sequence),))


@pytest.fixture
async def books(postgres: PrivatePostgres) -> AsyncIterator[Books]:
    books = Books(fresh_schema(postgres))
    await books.begin()
    yield books
    await books.close()


async def test_who_was_further_than_the_bucket_is_not_when_all_is_filled_from_the_beginning(books: Books) -> None:
    await books.ours.publish(books.generations, further(7))
    assert not await books.known.behind("ann", 7)
    await books.ours.start_over()
    assert await books.known.behind("ann", 7), "nothing of ann is in the index any more"


async def test_what_a_server_tells_of_a_bucket_that_it_lost_is_not_believed(books: Books) -> None:
    await books.ours.start_over()
    await books.other.claim(BUCKETS)
    late = Progress(FeedPosition.at(7), further(7).users, frozenset({SetAside(ANN, "ann", "m", 7, "REFUSED")}))
    await books.ours.publish(books.generations, late)
    assert await books.known.behind("ann", 1)
    assert (await books.known.status("ann")).parked == 0
    assert (await books.known.checkpoints()).latest == 0


async def test_what_a_server_tells_of_its_last_claim_of_a_bucket_is_not_believed(books: Books) -> None:
    await books.ours.start_over()
    await books.ours.claim(BUCKETS)
    await books.ours.publish(books.generations, further(7))
    assert await books.known.behind("ann", 1)


async def test_no_user_is_named_who_is_no_further_than_the_bucket(books: Books, postgres: PrivatePostgres) -> None:
    await books.ours.publish(books.generations, further(7))
    assert count(postgres, books.url, "index_users") == 1
    for checkpoint in (3, 6, 7):
        assert not await books.known.behind("ann", 7)
        await books.ours.publish(books.generations, Progress(FeedPosition.at(checkpoint)))
    assert count(postgres, books.url, "index_users") == 0, "an erased user's id would stay there"
    assert not await books.known.behind("ann", 7)


async def test_books_that_have_just_been_begun_are_not_taken_for_abandoned(books: Books) -> None:
    assert not await books.known.abandoned()
    assert len((await books.ours.renew()).generations) == BUCKETS
    await books.ours.leave()
    assert await books.known.abandoned()
