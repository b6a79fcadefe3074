"""One index that several servers fill: each message once, by whoever holds its bucket, and by another after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from postgres import PrivatePostgres, fresh_schema
from qdrant_client import AsyncQdrantClient
from vector.scripted import DIMENSION, ScriptedEmbedder, said, vector_of

from nomemory.server.faults import Fault, Reason
from nomemory.server.log.position import BUCKETS
from nomemory.server.log.postgres.connections import Database
from nomemory.server.log.postgres.feed import PostgresChangeFeed
from nomemory.server.log.postgres.migration import bring_forward
from nomemory.server.log.postgres.reader import PostgresLogReader
from nomemory.server.log.postgres.writer import PostgresLogWriter
from nomemory.server.log.protocol import OnConflict
from nomemory.server.message import EVERYTHING, Message
from nomemory.server.settings import Settings
from nomemory.server.vector.bucket_claims import Claim, Held
from nomemory.server.vector.bucket_keeper import BucketKeeper
from nomemory.server.vector.indexer import VectorIndexer
from nomemory.server.vector.postgres_index_books import PostgresIndexBooks
from nomemory.server.vector.postgres_shared_index import PostgresSharedIndex
from nomemory.server.vector.protocol import VectorPoint
from nomemory.server.vector.qdrant_index import QdrantIndex, connect

COLLECTION = "scripted-8"
LEASE_S = 1.0
USERS = [f"user-{number}" for number in range(30)]


class Cluster:
    """A log in PostgreSQL, a Qdrant, and servers that fill it."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.directory = directory
        self.qdrant: AsyncQdrantClient = connect(":memory:", None, 5.0)
        self.reader = PostgresLogReader(database)
        self.log = PostgresLogWriter(database, queue_max=1000, queue_max_bytes=10**9, announce=lambda: None)
        self.known = PostgresSharedIndex(database, COLLECTION, LEASE_S)
        self.index = QdrantIndex(self.qdrant, COLLECTION, DIMENSION)

    def server(self, name: str, embedder: ScriptedEmbedder) -> Server:
        return Server(self, name, embedder)

    async def write(self, *messages: Message) -> None:
        await self.log.write(messages, on_conflict=OnConflict.REPLACE)

    async def settled(self) -> None:
        """Wait until everything is in the index, whoever put it there."""
        reached = await self.reader.reached()
        async with asyncio.timeout(60):
            while not (await self.known.checkpoints()).has(reached):  # noqa: ASYNC110 - a state in the database
                await asyncio.sleep(0.02)

    async def found(self, user_id: str, text: str) -> list[str]:
        """Return the user's messages that lie exactly in the direction of a text."""
        hits = await self.index.search(user_id, vector_of(text), EVERYTHING, 100)
        versions = await self.reader.by_sequences(user_id, [hit.sequence for hit in hits if hit.score > 0.9999])
        return sorted(version.message_id for version in versions.values())

    async def close(self) -> None:
        await self.known.close()
        await self.log.close()
        await self.reader.close()


class Server:
    """The part of a server that fills the index."""

    def __init__(self, cluster: Cluster, name: str, embedder: ScriptedEmbedder) -> None:
        directory = cluster.directory / name
        self.embedder = embedder
        self.shared = PostgresSharedIndex(cluster.database, COLLECTION, LEASE_S)
        self.indexer = VectorIndexer(
            lambda: PostgresChangeFeed(cluster.database),
            QdrantIndex(cluster.qdrant, COLLECTION, DIMENSION),
            embedder,
            directory / "vectors",
            Settings.from_environment(data=directory, vector_flush_s=0.2),
            asyncio.Event(),
            shared=self.shared,
        )
        self._job = asyncio.create_task(self.indexer.run())

    @property
    def buckets(self) -> int:
        """How many it holds."""
        keeper = self.indexer._keeper
        return len(keeper._generations) if keeper else 0

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
        """End without a word: what it holds stays its own until its time is over."""
        with _silent():
            self._job.cancel()
            await asyncio.gather(self._job, return_exceptions=True)
        self.indexer.close()
        await self.shared.close()


@contextmanager
def _silent() -> Iterator[None]:
    async def leave(_books: PostgresIndexBooks) -> None:
        """Say nothing."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresIndexBooks, "leave", leave)
        yield


@asynccontextmanager
async def cluster(postgres: PrivatePostgres, directory: Path) -> AsyncIterator[Cluster]:
    database = Database(fresh_schema(postgres))
    await bring_forward(database)
    cluster = Cluster(database, directory)
    try:
        yield cluster
    finally:
        await cluster.close()


async def test_servers_share_the_buckets_and_nothing_is_embedded_twice(
    postgres: PrivatePostgres, tmp_path: Path
) -> None:
    async with cluster(postgres, tmp_path) as c:
        servers = [c.server(name, ScriptedEmbedder()) for name in ("one", "other")]
        for server in servers:
            await server.until(lambda server=server: server.buckets == BUCKETS // 2)  # type: ignore[misc]
        await c.write(*(said(f"{user} likes tea", "m", user) for user in USERS))
        await c.settled()
        for user in USERS:
            assert await c.found(user, f"{user} likes tea") == ["m"]
        embedded = [text for server in servers for text in server.embedder.texts]
        assert sorted(embedded) == sorted(f"{user} likes tea" for user in USERS)
        assert all(server.embedder.texts for server in servers)
        await c.log.delete(USERS[0], ["m"])
        await c.settled()
        assert await c.index.count() == len(USERS) - 1
        await servers[0].stop()
        await servers[1].until(lambda: servers[1].buckets == BUCKETS)
        await servers[1].stop()


async def test_another_server_takes_over_what_one_that_died_held(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as c:
        dying, other = c.server("dying", ScriptedEmbedder()), c.server("other", ScriptedEmbedder())
        await dying.until(lambda: dying.buckets == other.buckets == BUCKETS // 2)
        dying.embedder.gate.clear()
        await c.write(*(said(f"{user} likes tea", "m", user) for user in USERS))
        await dying.embedder.called.wait()
        await dying.die()
        await c.settled()
        assert await c.index.count() == len(USERS)
        assert not await c.known.behind(USERS[0], await c.reader.user_sequence(USERS[0]))
        await other.stop()


async def with_a_message_in_hand(c: Cluster) -> tuple[Server, BucketKeeper]:
    """Start a server that has all buckets, and waits for the vector of a message."""
    slow = c.server("slow", ScriptedEmbedder())
    await slow.until(lambda: slow.buckets == BUCKETS)
    slow.embedder.gate.clear()
    await c.write(said("tea"))
    await slow.embedder.called.wait()
    keeper = slow.indexer._keeper
    assert keeper is not None
    return slow, keeper


async def test_a_server_whose_time_is_over_writes_nothing(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(postgres, tmp_path) as c:
        slow, keeper = await with_a_message_in_hand(c)
        monkeypatch.setattr(keeper._claims, "renew", _hang)
        await slow.until(lambda: not slow.indexer._may_write())
        quick = c.server("quick", ScriptedEmbedder())
        await c.settled()
        await c.log.delete("ann", ["m1"])
        await c.settled()
        slow.embedder.gate.set()
        await asyncio.sleep(0.2)
        assert await c.index.count() == 0, "what was deleted came back"
        await slow.die()
        await quick.stop()


async def test_what_a_server_had_in_hand_when_it_lost_its_buckets_is_not_written_later(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(postgres, tmp_path) as c:
        slow, keeper = await with_a_message_in_hand(c)
        renew, goes_on = keeper._claims.renew, asyncio.Event()

        async def renew_late() -> Held:
            await goes_on.wait()
            return await renew()

        monkeypatch.setattr(keeper._claims, "renew", renew_late)
        await slow.until(lambda: not slow.indexer._may_write())
        quick = c.server("quick", ScriptedEmbedder())
        await c.settled()
        await c.log.delete("ann", ["m1"])
        await c.settled()
        goes_on.set()
        await slow.until(lambda: keeper.may_write)
        slow.embedder.gate.set()
        for _ in range(20):
            assert await c.index.count() == 0, "what was deleted came back"
            await asyncio.sleep(0.02)
        await slow.stop()
        await quick.stop()


async def _hang() -> None:
    await asyncio.Event().wait()


async def test_who_is_queried_goes_first_on_whichever_server(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as c:
        embedder = ScriptedEmbedder("openai")
        embedder.gate.clear()
        filling = c.server("filling", embedder)
        await filling.until(lambda: filling.buckets == BUCKETS)
        for user in ("crowd", "ann"):
            await c.write(*(said(f"{user} {n}", f"m{n}", user) for n in range(200)))
        await embedder.called.wait()
        sequence = await c.reader.user_sequence("ann")
        assert await c.known.behind("ann", sequence), "any server may be asked"
        await filling.until(lambda: "ann" in filling.indexer._hot.users())
        embedder.gate.set()
        while await c.known.behind("ann", sequence):  # noqa: ASYNC110 - a state in the database
            await asyncio.sleep(0.01)
        assert sum(text.startswith("ann") for text in embedder.texts) == 200
        await c.settled()
        await filling.stop()


async def test_nothing_is_given_up_that_is_being_written_to(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(postgres, tmp_path) as c:
        busy, began, may_end = c.server("busy", ScriptedEmbedder()), asyncio.Event(), asyncio.Event()
        await busy.until(lambda: busy.buckets == BUCKETS)
        upsert = busy.indexer._index.upsert

        async def slowly(points: Sequence[VectorPoint]) -> None:
            began.set()
            await may_end.wait()
            await upsert(points)

        monkeypatch.setattr(busy.indexer._index, "upsert", slowly)
        await c.write(said("tea"))
        await began.wait()
        other = c.server("other", ScriptedEmbedder())
        stopped = asyncio.create_task(busy.stop())
        await asyncio.sleep(1.5 * LEASE_S)
        assert other.buckets == 0
        may_end.set()
        await stopped
        await other.until(lambda: other.buckets == BUCKETS)
        assert other.embedder.texts == []
        await other.stop()


async def test_a_claim_whose_answer_was_lost_is_made_again(
    postgres: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, lost = PostgresIndexBooks.claim, list[int]()

    async def claim(books: PostgresIndexBooks, most: int) -> list[Claim]:
        claims = await original(books, most)
        if not lost:
            lost.append(len(claims))
            raise Fault(Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the connection broke")
        return claims

    monkeypatch.setattr(PostgresIndexBooks, "claim", claim)
    async with cluster(postgres, tmp_path) as c:
        server = c.server("one", ScriptedEmbedder())
        await c.write(said("tea"))
        await c.settled()
        assert lost == [BUCKETS]
        await server.stop()


async def test_what_is_set_aside_stays_so_when_another_server_takes_over(
    postgres: PrivatePostgres, tmp_path: Path
) -> None:
    async with cluster(postgres, tmp_path) as c:
        for name in ("first", "second"):
            embedder = ScriptedEmbedder()
            embedder.refused = {"poison"}
            server = c.server(name, embedder)
            await c.write(said("poison"), said(f"text of {name}", name))
            await c.settled()
            status = await c.known.status("ann")
            assert (status.parked, status.parked_ids) == (1, ("m1",))
            await server.stop()
        last = c.server("last", ScriptedEmbedder())
        await c.write(said("antidote"))
        await c.settled()
        assert (await c.known.status("ann")).parked == 0
        await last.stop()


async def test_an_index_that_is_gone_is_filled_anew(postgres: PrivatePostgres, tmp_path: Path) -> None:
    async with cluster(postgres, tmp_path) as c:
        server = c.server("one", ScriptedEmbedder())
        await c.write(*(said(f"{user} likes tea", "m", user) for user in USERS))
        await c.settled()
        await server.stop()
        await c.index.give_up()
        server = c.server("two", ScriptedEmbedder())
        async with asyncio.timeout(60):
            while await c.index.count() != len(USERS):  # noqa: ASYNC110 - a state of the engine
                await asyncio.sleep(0.02)
        await server.stop()


async def test_what_another_log_has_put_there_is_removed_and_what_this_one_has_is_kept(
    postgres: PrivatePostgres, tmp_path: Path
) -> None:
    async with cluster(postgres, tmp_path) as former:
        server = former.server("one", ScriptedEmbedder())
        await former.write(said("tea"), said("coffee", "m2"))
        await former.settled()
        await server.stop()
        async with cluster(postgres, tmp_path / "new") as c:
            c.qdrant, c.index = former.qdrant, former.index
            server = c.server("one", ScriptedEmbedder())
            await c.write(said("milk"))
            await c.settled()
            assert await c.index.count() == 1
            assert await c.found("ann", "milk") == ["m1"]
            await server.stop()
