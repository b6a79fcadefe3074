"""A collection that holds the points of another log is emptied before anything is asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nomemory.server.log.feed_position import FeedPosition
from nomemory.server.log.identity import Checkpoint, LogIdentity, LogPosition
from nomemory.server.log.protocol import Touched
from nomemory.server.message import EVERYTHING, Role
from nomemory.server.vector.backlog import Backlog
from nomemory.server.vector.checkpoint import discard_foreign_vectors, is_begun, vector_checkpoint
from nomemory.server.vector.collection import Collection
from nomemory.server.vector.protocol import VectorPoint
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
