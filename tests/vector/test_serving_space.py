"""A read keeps the vector space of its beginning, whatever takes its place meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from nomemory.server.embedding.none import NoEmbedder
from nomemory.server.embedding.unavailable import RATE_LIMITED, unavailable
from nomemory.server.embedding.watched_embedder import WatchedEmbedder
from nomemory.server.faults import Fault, Reason
from nomemory.server.log.feed import Touched
from nomemory.server.log.position import FeedPosition
from nomemory.server.message import EVERYTHING, Role
from nomemory.server.settings import Settings
from nomemory.server.vector.backlog import Backlog
from nomemory.server.vector.collection import collection_named, other_collections
from nomemory.server.vector.indexed_space import SpacesInUse
from nomemory.server.vector.protocol import VectorPoint
from nomemory.server.vector.qdrant_index import QdrantIndex, connect
from nomemory.server.vector.serving_space import ServingSpace
from nomemory.server.vector.space import VectorSpace
from nomemory.server.vector.unused_collections import UnusedCollections

EAST = b"\0\0\x80?" + b"\0" * 12


def space(name: str) -> VectorSpace:
    nothing: Any = None
    return VectorSpace(name, NoEmbedder(4), nothing, nothing, nothing)


async def test_what_is_replaced_is_given_back_when_its_last_read_has_ended() -> None:
    serving = ServingSpace(space("former"))
    with serving.used() as first:
        replacing = asyncio.create_task(serving.replace(space("new"), 60))
        await asyncio.sleep(0)
        with serving.used() as second:
            assert (first.name, second.name, serving.now.name) == ("former", "new", "new")
        await asyncio.sleep(0)
        assert not replacing.done()
        assert serving.named("former") is first
    assert await asyncio.wait_for(replacing, 30) is first
    serving.forget_former()
    with pytest.raises(Fault) as gone:
        serving.named("former")
    assert gone.value.reason == Reason.ERROR_REASON_INDEX_UNAVAILABLE


async def test_a_read_that_takes_too_long_is_not_waited_for() -> None:
    serving = ServingSpace(space("former"))
    with serving.used():
        assert (await serving.replace(space("new"), 0.01)).name == "former"
    assert (await serving.replace(space("newer"), 60)).name == "new"


class Failing(NoEmbedder):
    async def embed_query(self, text: str) -> bytes:
        if text == "works":
            return EAST
        raise unavailable("it does not answer", "connection" if text == "fails" else RATE_LIMITED)

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


async def test_a_model_fails_for_as_long_as_no_call_goes_through_and_several_have_failed() -> None:
    assert await fails_after("fails", "fails", "fails")
    assert not await fails_after("fails", "fails"), "two may be chance, however far apart"
    for between in ("works", "a document"):
        assert not await fails_after("fails", "fails", between, "fails")
    assert not await fails_after("fails", "limited", "limited", "limited", "fails")


async def test_unused_collections_are_deleted_on_the_server_of_the_settings(tmp_path: Path) -> None:
    client = connect(":memory:", None, 5)
    used, unused = QdrantIndex(client, "new", 4), QdrantIndex(client, "former", 4)
    for index in (used, unused):
        await index.upsert([VectorPoint("u", "m", 0, 1, 0, Role.USER, "", EAST)])
    settings = Settings.from_environment(qdrant_url="http://127.0.0.1:1")
    elsewhere = Settings.from_environment(qdrant_url="http://127.0.0.1:2")
    kept = collection_named(settings, tmp_path, "new")
    others = [collection_named(settings, tmp_path, "former"), collection_named(elsewhere, tmp_path, "new")]
    for collection in (kept, *others):
        backlog = Backlog(collection.backlog)
        backlog.feed([Touched(1, "u", "m")], FeedPosition.at(1))
        backlog.close()

    class InUse:
        index = used
        indexer = kept  # of which only the directory is looked at

    spaces = SpacesInUse(cast("Any", InUse()), None, "")
    await UnusedCollections(settings, tmp_path, spaces).delete()
    assert other_collections(tmp_path, ()) == [kept.directory]
    assert not await client.collection_exists("former")
    assert [hit.sequence for hit in await used.search("u", EAST, EVERYTHING, 10)] == [1]
    await used.close()
