"""The vector index follows the log, prefers queried users and isolates failures."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from vector.scripted_embedder import DIMENSION, ScriptedEmbedder, new_message, vector_of

from nomemory.server.embedding.factory import DisabledEmbedder
from nomemory.server.embedding.local import LocalEmbedder, compute_document_concurrency, get_cache_directory
from nomemory.server.embedding.local_model import create_package_model, is_local_model_available
from nomemory.server.embedding.protocol import RATE_LIMITED, Embedder, build_embedder_unavailable_fault
from nomemory.server.faults import Fault, Reason
from nomemory.server.indexing.vector import backlog_feed, desired_points
from nomemory.server.indexing.vector.indexer import VectorIndexer
from nomemory.server.message import Message
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.active_faults import INDEX_INCONSISTENT, ActiveFaults
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.collection import create_embedder_collection
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.search.semantic.protocol import VectorIndex
from nomemory.server.search.semantic.qdrant.index import QdrantIndex, create_client
from nomemory.server.store.results import OnConflict
from nomemory.server.store.sqlite.feed import SqliteChangeFeed
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.server.store.sqlite.writer import SqliteLogWriter

pytestmark = pytest.mark.filterwarnings("ignore:.*[Ll]ocal (Qdrant|mode):UserWarning")


class World:
    """A log, a vector index and its indexer. An index in memory is lost at the end, but starts no process."""

    def __init__(self, directory: Path, embedder: Embedder, *, in_memory: bool = False, **changed: object) -> None:
        self.settings = Settings.from_environment(
            **{
                "data": directory,
                "vector_flush_interval_s": 0.2,
                "embedding_chunk_chars": 50,
                "embedding_max_chunks": 4,
            }
            | changed
        )
        self.embedder = embedder
        directory.mkdir(parents=True, exist_ok=True)
        collection = create_embedder_collection(self.settings, directory / "vectors", embedder)
        self.index: VectorIndex
        if in_memory:
            self.index = QdrantIndex(create_client(":memory:", None, 20), "test", embedder.dimension)
        else:  # as one shard, because nothing is erased here
            self.index = cast("VectorIndex", EdgeIndex(collection.shard, embedder.dimension, timeout_s=20))
        self._wake, self.faults = asyncio.Event(), ActiveFaults()
        self._loop = asyncio.get_running_loop()
        self.log = SqliteLogWriter(directory / "log.db", queue_max=100, queue_max_bytes=10**9, announce=self._announce)
        self.reader = SqliteLogReader(directory / "log.db")
        self.indexer = VectorIndexer(
            lambda: SqliteChangeFeed(directory / "log.db"),
            self.index,
            embedder,
            directory / "vectors",
            self.settings,
            self._wake,
            self.faults,
        )

    async def write(self, *messages: Message) -> None:
        await self.log.write(messages, on_conflict=OnConflict.REPLACE)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - what is waited for is a state on disk
            await asyncio.sleep(0.005)

    async def until_pending(self, is_it: Callable[[int], bool]) -> None:
        while not is_it((await self.indexer.status()).pending):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)

    async def until_applied(self, user_id: str, sequence: int) -> None:
        while await self.indexer.is_lagging(user_id, sequence):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)

    async def settled(self) -> None:
        """Wait until the backlog is empty."""
        while (await self.indexer.status()).checkpoint.latest != await self.reader.read_sequence():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)

    async def search_ids(self, user_id: str, text: str) -> list[str]:
        """Return the messages of a user whose vector equals that of a text."""
        hits = await self.index.search(user_id, vector_of(text), EVERYTHING, 100)
        versions = await self.reader.read_versions(user_id, [hit.sequence for hit in hits if hit.score > 0.9999])
        return sorted(version.message_id for version in versions.values())

    async def close(self) -> None:
        self.indexer.close()
        await self.reader.close()
        self.log.close()
        await self.index.close()
        await self.embedder.close()

    def _announce(self) -> None:
        self._loop.call_soon_threadsafe(self._wake.set)


@asynccontextmanager
async def world(
    directory: Path, embedder: Embedder, *, in_memory: bool = False, **changed: object
) -> AsyncIterator[World]:
    world = World(directory, embedder, in_memory=in_memory, **changed)
    try:
        yield world
    finally:
        await world.close()


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    job = asyncio.create_task(world.indexer.run())
    try:
        yield
    finally:
        world.indexer.stop()
        if isinstance(world.embedder, ScriptedEmbedder):
            world.embedder.gate.set()  # so that a failed assertion is shown instead of a time-out
        await job


def process_id(world: World) -> int | None:
    assert isinstance(world.index, EdgeIndex)
    return world.index.process_id


def kill(world: World) -> None:
    running = process_id(world)
    assert running is not None
    os.kill(running, signal.SIGKILL)


async def test_the_index_follows_writes_replacements_and_deletions(tmp_path: Path) -> None:
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.write(new_message("tea"), new_message("coffee", "m2"), new_message("tea", "m1", "bob"))
        await w.settled()
        assert await w.search_ids("ann", "tea") == ["m1"]
        assert await w.search_ids("bob", "tea") == ["m1"]
        assert await w.search_ids("bob", "coffee") == []
        await w.write(new_message("milk"))
        await w.log.delete("ann", ["m2"])
        await w.settled()
        assert await w.search_ids("ann", "milk") == ["m1"]
        assert await w.search_ids("ann", "tea") == await w.search_ids("ann", "coffee") == []
        assert await w.search_ids("bob", "tea") == ["m1"]
        assert await w.index.count() == 2


async def test_each_part_of_a_long_message_is_searchable_until_it_is_replaced(tmp_path: Path) -> None:
    sentences = [f"{name} {'x' * 38}." for name in ("one", "two", "six", "ten")]
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.write(new_message(" ".join([*sentences, "beyond the limit of four parts"])))
        await w.settled()
        assert [await w.search_ids("ann", sentence) for sentence in sentences] == [["m1"]] * 4
        assert await w.index.count() == 4
        await w.write(new_message(sentences[0]))
        await w.settled()
        assert await w.index.count() == 1


async def test_a_replacement_read_in_two_batches_removes_the_old_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog_feed, "_MAX_CHANGES", 1)
    async with world(tmp_path, ScriptedEmbedder(), vector_flush_interval_s=1e-9) as w, running(w):
        await w.write(new_message(" ".join(f"{name} {'x' * 38}." for name in ("one", "two", "six"))))
        await w.settled()
        assert await w.index.count() == 3
        await w.write(new_message("short"))
        await w.settled()
        assert await w.search_ids("ann", "short") == ["m1"]
        assert await w.index.count() == 1


async def test_only_messages_that_may_have_points_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    remove = EdgeIndex.remove

    async def counted(index: EdgeIndex, user_id: str, message_id: str, *, from_part: int = 0) -> None:
        removed.append(message_id)
        await remove(index, user_id, message_id, from_part=from_part)

    monkeypatch.setattr(EdgeIndex, "remove", counted)
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.write(*(new_message(f"text {number}", f"m{number}") for number in range(50)))
        await w.settled()
        assert removed == []
        await w.write(new_message("other", "m7"))
        await w.log.delete("ann", ["m9"])
        await w.settled()
        assert set(removed) == {"m7", "m9"}


async def test_unrecorded_parts_of_an_earlier_run_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise LookupError

    sentences = [f"{name} {'x' * 38}." for name in ("one", "two", "six")]
    with monkeypatch.context() as broken:
        broken.setattr(backlog_feed.BacklogFeed, "record_results", failing)
        async with world(tmp_path, ScriptedEmbedder()) as w:
            await w.write(new_message(" ".join(sentences)))
            with pytest.raises(LookupError):
                await w.indexer.run()
            assert await w.index.count() == 3
    async with world(tmp_path, ScriptedEmbedder(), embedding_max_chunks=1) as w, running(w):
        await w.settled()
        assert await w.search_ids("ann", sentences[0]) == ["m1"]
        assert await w.index.count() == 1


async def test_equal_texts_are_embedded_once(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with world(tmp_path, embedder, in_memory=True) as w, running(w):
        await w.write(*(new_message("ok", f"m{number}", user) for number in range(20) for user in ("ann", "bob")))
        await w.settled()
        assert embedder.texts == ["ok"]
        assert w.indexer.texts_embedded == 1
        assert await w.index.count() == 40


async def test_a_caller_vector_of_the_right_dimension_is_used(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with world(tmp_path, embedder, in_memory=True) as w, running(w):
        other_model = np.ones(3, dtype="<f4").tobytes()
        await w.write(new_message("a", "m1", embedding=vector_of("own")), new_message("b", "m2", embedding=other_model))
        await w.settled()
        assert embedder.texts == ["b"]
        assert await w.search_ids("ann", "own") == ["m1"]
        assert await w.search_ids("ann", "b") == ["m2"]


@pytest.mark.parametrize("kind", ["local", "none"])
async def test_metadata_is_added_to_an_older_index_without_embedding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    embeds = kind != "none"
    first, second = (ScriptedEmbedder() if embeds else DisabledEmbedder(DIMENSION) for _ in range(2))
    caller_vector = None if embeds else vector_of("own")
    long = " ".join(f"{name} {'x' * 38}." for name in ("one", "two", "six"))
    message_filter = Filter(metadata=(("app", "phone"),))
    with monkeypatch.context() as before:
        before.setattr(desired_points, "compute_entry_hashes", lambda _entries: ())
        async with world(tmp_path, first) as w, running(w):
            tagged = [
                new_message(f"{long} {n}", f"m{n}", embedding=caller_vector)._replace(metadata={"app": "phone"})
                for n in range(9)
            ]
            plain = [new_message(f"text {n}", f"p{n}", embedding=caller_vector) for n in range(9)]
            await w.write(*tagged, *plain)
            await w.settled()
            assert await w.index.search("ann", vector_of("own"), message_filter, 100) == []
            backlog = w.indexer._backlog.path
    with closing(sqlite3.connect(backlog)) as file:
        file.executescript("DROP INDEX pending_by_bucket;")
        file.executescript("ALTER TABLE work DROP COLUMN bucket; PRAGMA user_version = 0;")
    monkeypatch.setattr(backlog_feed, "_MAX_CHANGES_WITHOUT_EMBEDDER", 5)
    async with world(tmp_path, second) as w:
        sequence = await w.reader.read_user_sequence("ann")
        assert await w.indexer.is_lagging("ann", sequence)
        await w.write(new_message("later", "late", embedding=caller_vector)._replace(metadata={"app": "phone"}))
        async with running(w):
            await w.settled()
            assert not await w.indexer.is_lagging("ann", sequence)
            hits = await w.index.search("ann", vector_of("own"), message_filter, 100)
            messages = await w.reader.read_versions("ann", [hit.sequence for hit in hits])
            assert {message.message_id for message in messages.values()} == {*(f"m{n}" for n in range(9)), "late"}
            assert w.indexer.texts_embedded == (1 if embeds else 0), "stored points keep their vectors"


async def test_without_an_embedder_only_caller_vectors_are_stored(tmp_path: Path) -> None:
    async with world(tmp_path, DisabledEmbedder(DIMENSION), in_memory=True) as w, running(w):
        await w.write(new_message("a"), new_message("b", "m2", embedding=vector_of("own")))
        await w.settled()
        assert await w.search_ids("ann", "own") == ["m2"]
        assert await w.index.count() == 1
        assert w.indexer.fault is None


async def test_without_an_embedder_messages_without_vectors_are_skipped(tmp_path: Path) -> None:
    async with world(tmp_path, DisabledEmbedder(DIMENSION)) as w:
        await w.write(*(new_message("a", f"m{number}") for number in range(50)))
        assert await w.indexer.is_lagging("ann", await w.reader.read_sequence())
        async with running(w):
            await w.settled()
            assert not await w.indexer.is_lagging("ann", await w.reader.read_sequence())
            assert process_id(w) is None, "the engine was not even started"


async def test_without_an_embedder_removed_caller_vectors_leave_the_index(tmp_path: Path) -> None:
    async with world(tmp_path, DisabledEmbedder(DIMENSION), in_memory=True) as w, running(w):
        await w.write(*(new_message("a", f"m{number}", embedding=vector_of("own")) for number in range(3)))
        await w.settled()
        await w.write(new_message("without", "m0"))
        await w.log.delete("ann", ["m2"])
        await w.settled()
        assert await w.search_ids("ann", "own") == ["m1"]
        assert await w.index.count() == 1


async def test_messages_are_indexed_when_an_embedder_is_added(tmp_path: Path) -> None:
    async with world(tmp_path, DisabledEmbedder(DIMENSION)) as w, running(w):
        await w.write(new_message("tea"), new_message("coffee", "m2", embedding=vector_of("own")))
        await w.settled()
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.until(lambda: w.indexer.texts_embedded == 1)
        await w.settled()
        assert await w.search_ids("ann", "tea") == ["m1"]
        assert await w.search_ids("ann", "own") == ["m2"]


async def test_a_user_lags_until_their_own_changes_are_applied(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with world(tmp_path, embedder, in_memory=True) as w:
        await w.write(new_message("tea"))
        ann = await w.reader.read_user_sequence("ann")
        assert await w.indexer.is_lagging("ann", ann)
        async with running(w):
            await w.until_applied("ann", ann)
            assert await w.search_ids("ann", "tea") == ["m1"]
            embedder.gate.clear()
            await w.write(new_message("milk", "m1", "bob"))
            await w.until_pending(lambda pending: pending == 1)
            assert await w.indexer.is_lagging("bob", await w.reader.read_sequence())
            assert not await w.indexer.is_lagging("ann", ann)
            embedder.gate.set()


async def test_queried_users_are_indexed_first(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with world(tmp_path, embedder, in_memory=True) as w:
        await w.write(*(new_message(f"old {number}", f"m{number}", "bob") for number in range(200)))
        await w.write(new_message("waited for", "m1", "ann"))
        embedder.gate.clear()
        async with running(w):
            await embedder.called.wait()
            await w.until_pending(lambda pending: pending == 201)
            w.indexer.record_query("ann")
            embedder.gate.set()
            latest = await w.reader.read_sequence()
            await w.until_applied("ann", latest)
            assert embedder.texts.index("waited for") <= 32 * compute_document_concurrency()  # one call was in flight
            await w.settled()
        assert len(embedder.texts) == 201


async def test_a_rejected_text_is_a_dead_letter_until_it_changes(tmp_path: Path) -> None:
    for kind in ("local", "openai"):
        embedder = ScriptedEmbedder(kind)
        embedder.refused = {"poison"}
        async with world(tmp_path / kind, embedder, in_memory=True) as w, running(w):
            await w.write(
                new_message("poison", "m0"), *(new_message(f"text {number}", f"m{number}") for number in range(1, 9))
            )
            await w.settled()
            status = await w.indexer.status("ann")
            assert (status.pending, status.dead_letters, status.dead_letter_ids) == (0, 1, ("m0",))
            assert await w.index.count() == 8
            assert w.indexer.fault is None
            await w.write(new_message("antidote", "m0"))
            await w.settled()
            assert await w.search_ids("ann", "antidote") == ["m0"]
            assert (await w.indexer.status("ann")).dead_letters == 0


async def test_a_rejected_replacement_removes_the_old_version(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    embedder.refused = {"poison"}
    async with world(tmp_path, embedder, in_memory=True) as w, running(w):
        await w.write(new_message("tea"))
        await w.settled()
        await w.write(new_message("poison"))
        await w.settled()
        assert await w.index.count() == 0


async def test_an_embedder_outage_causes_no_loss_and_no_dead_letters(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder("openai")
    embedder.down = build_embedder_unavailable_fault("away", "connection")
    async with world(tmp_path, embedder, in_memory=True) as w, running(w):
        await w.write(*(new_message(f"text {number}", f"m{number}") for number in range(70)))
        await w.until(lambda: len(embedder.calls) >= 3)
        fault = w.indexer.fault
        assert fault is not None
        assert fault.kind == "ERROR_REASON_EMBEDDER_UNAVAILABLE"
        await asyncio.wait_for(w.indexer.erase_backlog(), 60)
        await w.write(new_message("during the outage", "late"))
        await w.until_pending(lambda pending: pending == 71)
        embedder.down = None
        await w.settled()
        assert w.indexer.fault is None
        assert (await w.indexer.status()).dead_letters == 0
        assert await w.index.count() == 71


async def test_a_rate_limit_does_not_shrink_batches(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder("openai")
    embedder.down = build_embedder_unavailable_fault("too fast", RATE_LIMITED, retry_after_s=0.01)
    async with world(tmp_path, embedder, in_memory=True) as w:
        await w.write(*(new_message(f"text {number}", f"m{number:02}") for number in range(64)))
        async with running(w):
            await embedder.called.wait()
            embedder.down = None
            await w.settled()
        assert {len(call) for call in embedder.calls} == {64}


async def test_a_poison_message_does_not_block_others(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder("openai")
    embedder.broken = {"breaks it"}
    async with world(tmp_path, embedder, in_memory=True, embedding_batch_size=4) as w, running(w):
        await w.write(
            new_message("breaks it", "m00"),
            *(new_message(f"text {number}", f"m{number:02}") for number in range(1, 20)),
        )
        await w.until_pending(lambda pending: pending == 1)
        assert await w.index.count() == 19


async def test_the_indexer_can_be_run_again_after_an_unexpected_error(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with world(tmp_path, embedder, in_memory=True) as w:
        await w.write(new_message("tea"))
        embedder.down = LookupError("a bug")
        with pytest.raises(LookupError):
            await w.indexer.run()
        embedder.down = None
        async with running(w):
            await w.settled()
            assert await w.search_ids("ann", "tea") == ["m1"]


async def test_the_indexer_retries_after_an_engine_failure(tmp_path: Path) -> None:
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.write(new_message("tea"))
        await w.settled()
        for number in range(30):
            await w.write(new_message(f"text {number}", f"n{number}"))
            if number % 10 == 5:
                await w.until(lambda: process_id(w) is not None)
                kill(w)
        await w.settled()
        await w.until(lambda: w.indexer.fault is None)
        assert await w.index.count() == 31


async def test_an_erasure_fails_while_the_engine_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail_to_flush() -> None:
        raise Fault(Reason.ERROR_REASON_INDEX_UNAVAILABLE, "the disk is full")

    async with world(tmp_path, ScriptedEmbedder(), vector_flush_interval_s=3600) as w, running(w):
        message = new_message("tea")
        await w.write(message)
        await w.until_applied(message.user_id, await w.reader.read_sequence())
        with monkeypatch.context() as patched:
            patched.setattr(w.index, "flush", fail_to_flush)
            with pytest.raises(Fault, match="the disk is full"):
                await asyncio.wait_for(w.indexer.erase_backlog(), 60)
        await w.until(lambda: w.indexer.fault is None)
        await asyncio.wait_for(w.indexer.erase_backlog(), 60)


async def test_indexing_resumes_after_a_restart(tmp_path: Path) -> None:
    embedder = ScriptedEmbedder()
    async with world(tmp_path, embedder) as w:
        await w.write(*(new_message(f"text {number}", f"m{number:03}") for number in range(150)))
        job = asyncio.create_task(w.indexer.run())
        await w.until_pending(lambda pending: 0 < pending < 100)
        job.cancel()
        await asyncio.wait([job])
    again = ScriptedEmbedder()
    async with world(tmp_path, again) as w, running(w):
        await w.log.delete("ann", ["m000", "m149"])
        await w.settled()
        assert await w.index.count() == 148
        assert len(again.texts) < 150
        assert await w.search_ids("ann", "text 148") == ["m148"]


async def test_stopping_flushes_the_index(tmp_path: Path) -> None:
    async with world(tmp_path, ScriptedEmbedder(), vector_flush_interval_s=3600) as w:
        await w.write(new_message("tea"))
        async with running(w):
            await w.settled()
    idle = ScriptedEmbedder()
    async with world(tmp_path, idle) as w, running(w):
        await w.write(new_message("milk", "m2"))
        await w.settled()
        assert idle.texts == ["milk"]


async def test_a_lost_index_is_rebuilt(tmp_path: Path) -> None:
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.write(new_message("tea"))
        await w.settled()
    shard = create_embedder_collection(w.settings, tmp_path / "vectors", w.embedder).shard
    shard.rename(tmp_path / "lost")
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.until(lambda: w.indexer.texts_embedded == 1)
        await w.settled()
        assert await w.search_ids("ann", "tea") == ["m1"]


@pytest.mark.skipif(not is_local_model_available(), reason="the local embedder has no package for this platform")
async def test_paraphrases_are_found_in_chinese_and_english(tmp_path: Path) -> None:
    answers = {
        "她能吃辣的东西吗？": "我从小就不吃辣椒，一点辣都受不了。",
        "去哪里出差？": "下周三我要飞去上海开会。",
        "Who got a new cat?": "My sister adopted a grey kitten from the shelter.",
        "When is the deadline?": "The quarterly report is due on Friday.",
    }
    async with (
        world(tmp_path, LocalEmbedder(30, create_package_model(get_cache_directory())), in_memory=True) as w,
        running(w),
    ):
        await w.write(*(new_message(answer, answer) for answer in answers.values()))
        await w.settled()
        for question, answer in answers.items():
            hits = await w.index.search("ann", await w.embedder.embed_query(question), EVERYTHING, 1)
            (best,) = (await w.reader.read_versions("ann", [hits[0].sequence])).values()
            assert best.message_id == answer


async def test_missing_messages_are_reindexed_and_reported(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(40)]
    async with world(tmp_path, ScriptedEmbedder()) as w:
        async with running(w):
            await w.write(*(new_message(text, text) for text in texts))
            await w.settled()
        for text in texts[:15]:  # while the indexer is stopped, because it would add them again
            await w.index.remove("ann", text)
        await w.index.flush()
    embedder = ScriptedEmbedder()
    embedder.gate.clear()
    async with world(tmp_path, embedder) as w, running(w):
        await embedder.called.wait()
        assert [fault.kind for fault in w.faults.list_active_faults()] == [INDEX_INCONSISTENT]
        assert await w.indexer.is_lagging("ann", 1)
        embedder.gate.set()
        await w.until(lambda: not w.faults.list_active_faults())
        assert [await w.search_ids("ann", text) for text in texts] == [[text] for text in texts]
        assert sorted(embedder.texts) == sorted(texts[:15])


async def test_an_unreadable_index_is_rebuilt(tmp_path: Path) -> None:
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.write(*(new_message(f"text {number}", f"m{number}") for number in range(20)))
        await w.settled()
    (segment,) = (tmp_path / "vectors").glob("*/edge/*/segments/*/segment.json")
    segment.unlink()
    async with world(tmp_path, ScriptedEmbedder()) as w, running(w):
        await w.until(lambda: bool(w.faults.list_active_faults()))
        await w.until(lambda: not w.faults.list_active_faults())
        assert [await w.search_ids("ann", f"text {number}") for number in range(20)] == [[f"m{n}"] for n in range(20)]
