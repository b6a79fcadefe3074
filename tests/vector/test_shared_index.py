"""A vector index that several servers share: one leader fills it, and another takes over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from postgres import PrivatePostgres, fresh_schema
from qdrant_client import AsyncQdrantClient
from vector.scripted_embedder import DIMENSION, ScriptedEmbedder, new_message, vector_of

from nomemory.server.faults import Fault, Reason
from nomemory.server.indexing.vector.indexer import VectorIndexer
from nomemory.server.indexing.vector.leader_lock import PostgresLeaderLock
from nomemory.server.indexing.vector.postgres_index import PostgresSharedIndex
from nomemory.server.message import Message
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.lexical.postgres.token_columns import build_token_columns
from nomemory.server.search.semantic.index_progress import IndexCheckpoint
from nomemory.server.search.semantic.protocol import VectorPoint
from nomemory.server.search.semantic.qdrant.index import QdrantIndex, create_client
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.feed import PostgresChangeFeed
from nomemory.server.store.postgres.reader import PostgresLogReader
from nomemory.server.store.postgres.schema import upgrade_schema
from nomemory.server.store.postgres.writer import PostgresLogWriter
from nomemory.server.store.results import OnConflict

COLLECTION = "scripted-8"
LEASE_S = 1.0
USERS = [f"user-{number}" for number in range(30)]


class Cluster:
    """A PostgreSQL log, a Qdrant server, and servers that share both."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.directory = directory
        self.qdrant: AsyncQdrantClient = create_client(":memory:", None, 5.0)
        self.reader = PostgresLogReader(database)
        self.log = PostgresLogWriter(
            database, queue_max=1000, queue_max_bytes=10**9, extract_tokens=build_token_columns, announce=lambda: None
        )
        self.known = PostgresSharedIndex(database, COLLECTION, LEASE_S)
        self.index = QdrantIndex(self.qdrant, COLLECTION, DIMENSION)

    def server(self, name: str, embedder: ScriptedEmbedder) -> Server:
        return Server(self, name, embedder)

    async def write(self, *messages: Message) -> None:
        await self.log.write(messages, on_conflict=OnConflict.REPLACE)

    async def settled(self) -> None:
        """Wait until the index has applied all changes."""
        reached = await self.reader.read_end_position()
        async with asyncio.timeout(60):
            while not (await self.known.read_checkpoint()).is_at_or_after(reached):  # noqa: ASYNC110 - a state in the database
                await asyncio.sleep(0.02)

    async def search_ids(self, user_id: str, text: str) -> list[str]:
        """Return the messages of a user whose vector equals that of a text."""
        hits = await self.index.search(user_id, vector_of(text), EVERYTHING, 100)
        versions = await self.reader.read_versions(user_id, [hit.sequence for hit in hits if hit.score > 0.9999])
        return sorted(version.message_id for version in versions.values())

    async def close(self) -> None:
        await self.known.close()
        await self.log.close()
        await self.reader.close()


class Server:
    """The vector indexer of a server."""

    def __init__(self, cluster: Cluster, name: str, embedder: ScriptedEmbedder) -> None:
        directory = cluster.directory / name
        self.embedder = embedder
        self.shared = PostgresSharedIndex(cluster.database, COLLECTION, LEASE_S)
        self.indexer = VectorIndexer(
            lambda: PostgresChangeFeed(cluster.database),
            QdrantIndex(cluster.qdrant, COLLECTION, DIMENSION),
            embedder,
            directory / "vectors",
            Settings.from_environment(data=directory, vector_flush_interval_s=0.2),
            asyncio.Event(),
            shared=self.shared,
        )
        self._job = asyncio.create_task(self.indexer.run())

    @property
    def fills(self) -> bool:
        """Whether this server is the leader."""
        leader = self.indexer._leader
        return leader is not None and leader.may_write

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - a state in the database
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self.indexer.stop()
        await self._job
        self.indexer.close()
        await self.shared.close()

    async def die(self) -> None:
        """Close the connections without cleanup, like a killed process."""
        self._job.cancel()
        await asyncio.gather(self._job, return_exceptions=True)
        self.indexer.close()
        await self.shared.close()


@asynccontextmanager
async def cluster(postgres: PrivatePostgres, directory: Path) -> AsyncIterator[Cluster]:
    database = Database(fresh_schema(postgres))
    await upgrade_schema(database)
    cluster = Cluster(database, directory)
    try:
        yield cluster
    finally:
        await cluster.close()


async def test_another_server_takes_over_when_the_leader_stops(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as c:
        first, other = c.server("one", ScriptedEmbedder()), c.server("other", ScriptedEmbedder())
        await c.write(*(new_message(f"{user} likes tea", "m", user) for user in USERS))
        await c.settled()
        for user in USERS:
            assert await c.search_ids(user, f"{user} likes tea") == ["m"]
        filling, waiting = (first, other) if first.fills else (other, first)
        assert not waiting.fills
        assert sorted(filling.embedder.texts) == sorted(f"{user} likes tea" for user in USERS)
        await c.log.delete(USERS[0], ["m"])
        await c.settled()
        assert await c.index.count() == len(USERS) - 1
        await filling.stop()
        await c.write(new_message("milk"))
        await c.settled()
        assert waiting.embedder.texts == ["milk"]
        await waiting.stop()


async def test_another_server_resumes_after_a_leader_died(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as c:
        dying = await with_a_message_in_hand(c)
        other = c.server("other", ScriptedEmbedder())
        await c.write(*(new_message(f"{user} likes tea", "m", user) for user in USERS))
        await dying.die()
        await c.settled()
        assert await c.index.count() == 1 + len(USERS)
        assert not await c.known.is_lagging(USERS[0], await c.reader.read_user_sequence(USERS[0]))
        await other.stop()


async def with_a_message_in_hand(c: Cluster) -> Server:
    """Start a leader that waits for the vector of a message."""
    slow = c.server("slow", ScriptedEmbedder())
    await slow.until(lambda: slow.fills)
    slow.embedder.gate.clear()
    await c.write(new_message("tea"))
    await slow.embedder.called.wait()
    return slow


def hung(slow: Server, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Suspend the database calls of a server until an event is set."""
    leader, goes_on = slow.indexer._leader, asyncio.Event()
    assert leader is not None
    renew = leader.lock.renew

    async def renew_late() -> None:
        await goes_on.wait()
        await renew()

    monkeypatch.setattr(leader.lock, "renew", renew_late)
    return goes_on


async def test_a_hanging_leader_loses_the_lock_and_writes_nothing(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(postgres, tmp_path) as c:
        slow, embedding, written = await with_a_message_in_hand(c), asyncio.Event(), list[VectorPoint]()
        may_write = slow.indexer._may_write

        def ask() -> bool:
            embedding.set()
            return may_write()

        async def upsert(points: Sequence[VectorPoint]) -> None:
            written.extend(points)

        monkeypatch.setattr(slow.indexer._batches, "may_write", ask)
        monkeypatch.setattr(slow.indexer._index, "upsert", upsert)
        hung(slow, monkeypatch)
        quick = c.server("quick", ScriptedEmbedder())
        await quick.until(lambda: quick.fills)
        await c.settled()
        slow.embedder.gate.set()
        await embedding.wait()
        assert written == []
        assert await c.search_ids("ann", "tea") == ["m1"], "the other server has indexed the message"
        await slow.die()
        await quick.stop()


async def test_a_batch_of_an_earlier_term_is_not_written(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(postgres, tmp_path) as c:
        slow = await with_a_message_in_hand(c)
        goes_on = hung(slow, monkeypatch)
        quick = c.server("quick", ScriptedEmbedder())
        await quick.until(lambda: quick.fills)
        await c.settled()
        await c.log.delete("ann", ["m1"])
        await c.settled()
        await quick.stop()
        goes_on.set()
        await slow.until(lambda: slow.fills)
        slow.embedder.gate.set()
        await c.write(new_message("milk", "m2"))
        await c.settled()
        assert await c.search_ids("ann", "tea") == [], "deleted messages must not reappear"
        assert await c.index.count() == 1
        await slow.stop()


async def test_a_new_leader_waits_for_the_lease_of_a_disconnected_one(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = dict[str, float]()

    def timed(method: str) -> None:
        original = getattr(PostgresLeaderLock, method)

        async def call(lock: PostgresLeaderLock, *values: object) -> object:
            at[method] = time.monotonic()
            return await original(lock, *values)

        monkeypatch.setattr(PostgresLeaderLock, method, call)

    timed("was_released")
    timed("record_leader")
    async with cluster(postgres, tmp_path) as c:
        cut_off = await with_a_message_in_hand(c)
        other = c.server("other", ScriptedEmbedder())
        await cut_off.die()
        await other.until(lambda: other.fills)
        assert at["record_leader"] - at["was_released"] > 0.9 * LEASE_S
        await other.stop()


async def test_users_queried_on_any_server_are_indexed_first(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as c:
        embedder = ScriptedEmbedder("openai")
        embedder.gate.clear()
        filling = c.server("filling", embedder)
        await filling.until(lambda: filling.fills)
        for user in ("crowd", "ann"):
            await c.write(*(new_message(f"{user} {n}", f"m{n}", user) for n in range(200)))
        await embedder.called.wait()
        sequence = await c.reader.read_user_sequence("ann")
        assert await c.known.is_lagging("ann", sequence), "every server answers"
        await filling.until(lambda: "ann" in filling.indexer._hot.users())
        embedder.gate.set()
        while await c.known.is_lagging("ann", sequence):  # noqa: ASYNC110 - a state in the database
            await asyncio.sleep(0.01)
        assert sum(text.startswith("ann") for text in embedder.texts) == 200
        await c.settled()
        await filling.stop()


async def test_the_lock_is_not_released_during_a_write(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(postgres, tmp_path) as c:
        busy, began, may_end = c.server("busy", ScriptedEmbedder()), asyncio.Event(), asyncio.Event()
        await busy.until(lambda: busy.fills)
        upsert = busy.indexer._index.upsert

        async def slowly(points: Sequence[VectorPoint]) -> None:
            began.set()
            await may_end.wait()
            await upsert(points)

        monkeypatch.setattr(busy.indexer._index, "upsert", slowly)
        await c.write(new_message("tea"))
        await began.wait()
        other = c.server("other", ScriptedEmbedder())
        stopped = asyncio.create_task(busy.stop())
        await asyncio.sleep(1.5 * LEASE_S)
        assert not other.fills
        may_end.set()
        await stopped
        await other.until(lambda: other.fills)
        assert other.embedder.texts == []
        await other.stop()


async def test_a_failed_start_of_a_term_is_retried(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, broken = PostgresLeaderLock.read_checkpoint, list[int]()

    async def filled(lock: PostgresLeaderLock) -> IndexCheckpoint:
        checkpoint = await original(lock)
        if not broken:
            broken.append(1)
            raise Fault(Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the connection broke")
        return checkpoint

    monkeypatch.setattr(PostgresLeaderLock, "read_checkpoint", filled)
    async with cluster(postgres, tmp_path) as c:
        server = c.server("one", ScriptedEmbedder())
        await c.write(new_message("tea"))
        await c.settled()
        assert broken
        await server.stop()


async def test_dead_letters_survive_a_change_of_leader(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as c:
        for name in ("first", "second"):
            embedder = ScriptedEmbedder()
            embedder.refused = {"poison"}
            server = c.server(name, embedder)
            await c.write(new_message("poison"), new_message(f"text of {name}", name))
            await c.settled()
            status = await c.known.status("ann")
            assert (status.dead_letters, status.dead_letter_ids) == (1, ("m1",))
            await server.stop()
        last = c.server("last", ScriptedEmbedder())
        await c.write(new_message("antidote"))
        await c.settled()
        assert (await c.known.status("ann")).dead_letters == 0
        await last.stop()


async def test_a_lost_shared_index_is_refilled(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as c:
        server = c.server("one", ScriptedEmbedder())
        await c.write(*(new_message(f"{user} likes tea", "m", user) for user in USERS))
        await c.settled()
        await server.stop()
        await c.index.reset()
        server = c.server("two", ScriptedEmbedder())
        async with asyncio.timeout(60):
            while await c.index.count() != len(USERS):  # noqa: ASYNC110 - a state of the engine
                await asyncio.sleep(0.02)
        await server.stop()


async def test_points_of_another_log_are_removed(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as former:
        server = former.server("one", ScriptedEmbedder())
        await former.write(new_message("tea"), new_message("coffee", "m2"))
        await former.settled()
        await server.stop()
        async with cluster(postgres, tmp_path / "new") as c:
            c.qdrant, c.index = former.qdrant, former.index
            server = c.server("one", ScriptedEmbedder())
            await c.write(new_message("milk"))
            await c.settled()
            assert await c.index.count() == 1
            assert await c.search_ids("ann", "milk") == ["m1"]
            await server.stop()
