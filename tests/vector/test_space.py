"""The active space of reads, model failures and hot users."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from nomemory.server.embedding.factory import DisabledEmbedder
from nomemory.server.embedding.protocol import RATE_LIMITED, build_embedder_unavailable_fault
from nomemory.server.embedding.wrappers import WatchedEmbedder
from nomemory.server.faults import Fault
from nomemory.server.indexing.vector.backlog import Backlog
from nomemory.server.indexing.vector.collection_cleanup import CollectionCleanup
from nomemory.server.indexing.vector.indexed_spaces import IndexedSpaces
from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.search.semantic.collection import create_named_collection, list_unused_collections
from nomemory.server.search.semantic.hot_users import HotUserTracker
from nomemory.server.search.semantic.protocol import VectorPoint
from nomemory.server.search.semantic.qdrant.index import QdrantIndex, create_client
from nomemory.server.search.semantic.vector_space import VectorSpace
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.feed_position import FeedPosition

EAST = b"\0\0\x80?" + b"\0" * 12


def space(name: str) -> VectorSpace:
    nothing: Any = None
    return VectorSpace(name, DisabledEmbedder(4), nothing, nothing)


async def test_a_replaced_space_is_closed_after_its_last_read() -> None:
    serving = ActiveSpace(space("former"))
    with serving.acquire_lease() as first:
        replacing = asyncio.create_task(serving.replace(space("new"), 60))
        await asyncio.sleep(0)
        with serving.acquire_lease() as second:
            assert (first.name, second.name, serving.current_space.name) == ("former", "new", "new")
        await asyncio.sleep(0)
        assert not replacing.done()
    assert await asyncio.wait_for(replacing, 30) is first


async def test_replacing_a_space_does_not_wait_for_slow_reads() -> None:
    serving = ActiveSpace(space("former"))
    with serving.acquire_lease():
        assert (await serving.replace(space("new"), 0.01)).name == "former"
    assert (await serving.replace(space("newer"), 60)).name == "new"


class Failing(DisabledEmbedder):
    async def embed_query(self, text: str) -> bytes:
        if text == "works":
            return EAST
        raise build_embedder_unavailable_fault("it does not answer", "connection" if text == "fails" else RATE_LIMITED)

    async def embed_documents(self, texts: Sequence[str]) -> list[bytes]:
        return [EAST for _ in texts]


async def fails_after(*queries: str) -> bool:
    watched = WatchedEmbedder(Failing(4))
    for text in queries:
        if text == "a document":
            await watched.embed_documents([text])
        else:
            with suppress(Fault):
                await watched.embed_query(text)
    return watched.failing_s > 0


async def test_a_model_is_failing_after_several_consecutive_errors() -> None:
    assert await fails_after("fails", "fails", "fails")
    assert not await fails_after("fails", "fails"), "two errors may be sporadic at any distance"
    for between in ("works", "a document"):
        assert not await fails_after("fails", "fails", between, "fails")
    assert not await fails_after("fails", "limited", "limited", "limited", "fails")


async def test_unused_collections_are_deleted_on_the_configured_server(tmp_path: Path) -> None:
    client = create_client(":memory:", None, 5)
    used, unused = QdrantIndex(client, "new", 4), QdrantIndex(client, "former", 4)
    for index in (used, unused):
        await index.upsert([VectorPoint("u", "m", 0, 1, 0, Role.USER, "", EAST)])
    settings = Settings.from_environment(qdrant_url="http://127.0.0.1:1")
    elsewhere = Settings.from_environment(qdrant_url="http://127.0.0.1:2")
    kept = create_named_collection(settings, tmp_path, "new")
    others = [
        create_named_collection(settings, tmp_path, "former"),
        create_named_collection(elsewhere, tmp_path, "new"),
    ]
    for collection in (kept, *others):
        backlog = Backlog(collection.backlog)
        backlog.add_changes([ChangeRef(1, "u", "m")], FeedPosition.from_sequence(1))
        backlog.close()

    class InUse:
        index = used
        indexer = kept  # of which only the directory is used

    spaces = IndexedSpaces(cast("Any", InUse()), None, "")
    await CollectionCleanup(settings, tmp_path, spaces, lambda _name: None).delete_unused_collections()
    assert list_unused_collections(tmp_path, ()) == [kept.directory]
    assert not await client.collection_exists("former")
    assert [hit.sequence for hit in await used.search("u", EAST, EVERYTHING, 10)] == [1]
    await used.close()


def test_a_user_is_hot_for_a_while_after_a_query() -> None:
    now = 0.0
    hot = HotUserTracker(60, lambda: now)
    assert hot.record_query("ann")
    now = 59.0
    assert not hot.record_query("ann"), "the user was already hot"
    assert hot.record_query("bob")
    assert hot.users() == ["bob", "ann"]
    now = 60.0
    assert not hot.record_query("ann")
    assert hot.users() == ["ann", "bob"]
    now = 119.5
    assert hot.users() == ["ann"]
    now = 120.0
    assert hot.users() == []
    assert hot.record_query("ann")


def test_the_number_of_hot_users_is_limited() -> None:
    hot = HotUserTracker(60)
    for number in range(1000):
        hot.record_query(f"u{number}")
    assert hot.users() == [f"u{number}" for number in range(999, 743, -1)]
