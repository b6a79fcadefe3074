"""The leader lock of a shared index is exclusive and protects the published progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from postgres import PrivatePostgres, count, fresh_schema

from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.leader_lock import PostgresLeaderLock
from nomemory.server.indexing.vector.postgres_index import PostgresSharedIndex
from nomemory.server.search.semantic.index_progress import DeadLetter, IndexProgress, UserCheckpoint
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.schema import upgrade_schema

COLLECTION = "vectors-8"
ANN = compute_bucket("ann")


class Servers:
    """Two servers that share a collection. The first is the leader."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(url)
        self.known = PostgresSharedIndex(self.database, COLLECTION, 60.0)
        self.ours = self.known.create_leader_lock()
        self.other = self.known.create_leader_lock()

    async def begin(self) -> None:
        await upgrade_schema(self.database)
        assert await self.ours.acquire()
        await self.ours.record_leader("log", None, _nothing)

    async def close(self) -> None:
        await self.ours.release()
        await self.other.release()
        await self.known.close()


async def _nothing() -> None:
    """Do nothing, because the index is empty."""


def further(sequence: int, checkpoint: int = 0) -> IndexProgress:
    """Return a progress in which the checkpoint of ann is ahead of her bucket."""
    return IndexProgress(FeedPosition.from_sequence(checkpoint), (UserCheckpoint(ANN, "ann", sequence),))


async def until_taken(lock: PostgresLeaderLock) -> None:
    async with asyncio.timeout(20):
        while not await lock.acquire():  # noqa: ASYNC110 - the database frees it
            await asyncio.sleep(0.02)


@pytest.fixture
async def servers(postgres: PrivatePostgres) -> AsyncIterator[Servers]:
    servers = Servers(fresh_schema(postgres))
    await servers.begin()
    yield servers
    await servers.close()


async def test_the_lock_is_exclusive_until_its_release(servers: Servers) -> None:
    assert not await servers.other.acquire()
    await servers.ours.release()
    await until_taken(servers.other)
    assert await servers.other.was_released()


async def test_a_disconnected_leader_has_not_released_the_lock(servers: Servers) -> None:
    await servers.ours.disconnect()
    await until_taken(servers.other)
    assert not await servers.other.was_released()


async def test_an_idle_leader_loses_the_lock(servers: Servers) -> None:
    silent = PostgresLeaderLock(servers.database, "another", 0.3)
    assert await silent.acquire()
    eager = PostgresLeaderLock(servers.database, "another", 60.0)
    await until_taken(eager)
    with pytest.raises(Fault):
        await silent.renew()
    await silent.disconnect()
    await eager.release()


async def test_locks_are_separate_per_schema_and_collection(servers: Servers, postgres: PrivatePostgres) -> None:
    elsewhere = Servers(fresh_schema(postgres))
    await elsewhere.begin()
    await elsewhere.close()
    another = PostgresLeaderLock(servers.database, "another", 60.0)
    assert await another.acquire()
    await another.release()


async def test_starting_over_resets_user_checkpoints(servers: Servers) -> None:
    await servers.ours.publish_progress(further(7))
    assert not await servers.known.is_lagging("ann", 7)
    await servers.ours.start_over()
    assert await servers.known.is_lagging("ann", 7), "the index contains no points of ann"


async def test_progress_is_not_published_after_the_lock_is_lost(servers: Servers) -> None:
    late = IndexProgress(
        FeedPosition.from_sequence(7),
        further(7).user_checkpoints,
        frozenset({DeadLetter(ANN, "ann", "m", 7, "REFUSED")}),
    )
    servers.ours._connection.terminate()
    with pytest.raises(Fault):
        await servers.ours.publish_progress(late)
    assert await servers.known.is_lagging("ann", 1)
    assert (await servers.known.status("ann")).dead_letters == 0
    assert (await servers.known.read_checkpoint()).latest == 0


async def test_user_checkpoints_behind_the_bucket_are_deleted(servers: Servers, postgres: PrivatePostgres) -> None:
    await servers.ours.publish_progress(further(7))
    assert count(postgres, servers.url, "index_users") == 1
    for checkpoint in (3, 6, 7):
        assert not await servers.known.is_lagging("ann", 7)
        await servers.ours.publish_progress(IndexProgress(FeedPosition.from_sequence(checkpoint)))
    assert count(postgres, servers.url, "index_users") == 0, "otherwise the id of an erased user would remain"
    assert not await servers.known.is_lagging("ann", 7)


async def test_an_index_in_use_is_not_abandoned(servers: Servers) -> None:
    assert not await servers.known.delete_unused_state()
    assert not await servers.other.acquire()
    await servers.ours.release()
    assert not await servers.known.delete_unused_state(), "another server uses the index"
    await servers.other.release()
    assert await servers.known.delete_unused_state()
