"""A collection that another log fills is left alone; one that this log has not begun is emptied before it is asked."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from nomemory.server.log.feed import Touched
from nomemory.server.log.position import Checkpoint, FeedPosition, LogIdentity, LogPosition
from nomemory.server.message import EVERYTHING, Role
from nomemory.server.vector.backlog import Backlog
from nomemory.server.vector.checkpoint import discard_foreign_vectors, is_begun, vector_checkpoint
from nomemory.server.vector.collection import Collection
from nomemory.server.vector.foreign_collection import ForeignCollectionError
from nomemory.server.vector.protocol import VectorPoint
from nomemory.server.vector.qdrant_collection import QdrantCollection
from nomemory.server.vector.qdrant_index import QdrantIndex, connect

VECTOR = b"\0\0\x80?" + b"\0" * 12


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_collection_on_a_server_that_this_log_has_not_begun_is_emptied(*, is_new: bool) -> None:
    client = connect(":memory:", None, 5)
    before = QdrantIndex(client, "vectors", 4)
    await before.upsert([VectorPoint("u", "m", 0, 1, 0, Role.USER, "", VECTOR)])
    now = QdrantIndex(client, "vectors", 4, is_new=is_new)
    assert [hit.sequence for hit in await now.search("u", VECTOR, EVERYTHING, 10)] == ([] if is_new else [1])
    assert await now.count() == (0 if is_new else 1)
    await now.close()


POINT = VectorPoint("u", "m", 0, 1, 0, Role.USER, "", VECTOR)


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_collection_that_another_log_fills_is_neither_read_nor_written(*, is_new: bool) -> None:
    client = connect(":memory:", None, 5)
    theirs = QdrantIndex(client, "vectors", 4, is_new=True, log_id="theirs")
    await theirs.upsert([POINT])
    ours = QdrantIndex(client, "vectors", 4, is_new=is_new, log_id="ours")
    for call in (
        ours.probe,
        ours.count,
        ours.give_up,
        partial(ours.upsert, [POINT]),
        partial(ours.search, "u", VECTOR, EVERYTHING, 10),
        partial(ours.remove, "u", "m"),
    ):
        with pytest.raises(
            ForeignCollectionError, match="collection vectors on the Qdrant server is filled from another"
        ):
            await call()
    assert await theirs.count() == 1


async def test_a_collection_that_another_log_fills_is_not_deleted_with_those_that_are_not_in_use() -> None:
    client = connect(":memory:", None, 5)
    theirs, former, ours = (
        QdrantIndex(client, name, 4, is_new=True, log_id=log)
        for name, log in (("vectors", "theirs"), ("former", "ours"), ("other", "ours"))
    )
    for index in (theirs, former, ours):
        await index.upsert([POINT])
    await ours.drop("vectors")
    await ours.drop("former")
    assert await theirs.count() == 1
    assert not await client.collection_exists("former")


async def test_a_log_goes_on_with_its_own_collection_and_takes_one_that_names_no_owner() -> None:
    client = connect(":memory:", None, 5)
    await QdrantIndex(client, "vectors", 4).upsert([POINT])  # as a version before did
    for _ in range(2):
        assert await QdrantIndex(client, "vectors", 4, log_id="ours").count() == 1
    assert await QdrantIndex(client, "vectors", 4, is_new=True, log_id="ours").count() == 0, "restored: another epoch"
    with pytest.raises(ForeignCollectionError):
        await QdrantIndex(client, "vectors", 4, log_id="theirs").count()


async def test_of_two_logs_that_take_a_collection_at_once_not_both_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client, met = connect(":memory:", None, 5), asyncio.Barrier(2)
    make = QdrantCollection.make

    async def make_together(collection: QdrantCollection) -> None:
        await met.wait()
        await make(collection)

    monkeypatch.setattr(QdrantCollection, "make", make_together)
    both = [QdrantIndex(client, "vectors", 4, log_id=log) for log in ("ours", "theirs")]
    answers = await asyncio.gather(*(index.count() for index in both), return_exceptions=True)
    assert any(isinstance(answer, ForeignCollectionError) for answer in answers)
    assert len((await client.get_collection_aliases("vectors")).aliases) <= 1


async def test_a_collection_that_somebody_deletes_is_noticed() -> None:
    client = connect(":memory:", None, 5)
    index = QdrantIndex(client, "vectors", 4, log_id="ours")
    await index.upsert([POINT])
    await index.probe()
    assert not index.suspect.is_set()
    await client.delete_collection("vectors")
    await index.probe()
    assert index.suspect.is_set()


def fed_backlog(collection: Collection, log: str, sequence: int) -> Backlog:
    backlog = Backlog(collection.backlog)
    backlog.follow(log)
    backlog.feed([Touched(sequence, "u", "m")], FeedPosition.at(sequence))
    return backlog


def test_a_collection_is_begun_once_its_index_has_kept_something(tmp_path: Path) -> None:
    collection = Collection("vectors", tmp_path)
    backlog = fed_backlog(collection, "log", 7)
    assert not is_begun(collection.backlog)
    backlog.mark_applied(backlog.take((), 1))
    assert is_begun(collection.backlog)
    assert vector_checkpoint(collection.backlog) == Checkpoint("log", 7)
    backlog.close()


@pytest.mark.parametrize(
    ("log", "is_foreign"),
    [
        (LogPosition(LogIdentity("log"), 7), False),
        (LogPosition(LogIdentity("log"), 6), True),
        (LogPosition(LogIdentity("other"), 7), True),
        (LogPosition(LogIdentity("log", "restored"), 7), True),
    ],
)
def test_a_collection_of_another_log_or_epoch_or_ahead_of_it_is_discarded(
    tmp_path: Path, log: LogPosition, *, is_foreign: bool
) -> None:
    collection = Collection("vectors", tmp_path / "vectors")
    fed_backlog(collection, "log", 7).close()
    assert discard_foreign_vectors(collection, log) == is_foreign
    assert collection.directory.exists() != is_foreign
