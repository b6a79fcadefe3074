"""A backlog goes on where it was when its log is moved: what is done stays done, what is not done is still to do."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from nomemory.server.log.feed import Touched
from nomemory.server.log.position import BUCKETS, FeedPosition, bucket_of
from nomemory.server.vector.backlog import Backlog
from nomemory.server.vector.bucket_claims import SetAside
from nomemory.server.vector.moved_backlog import IndexBooks, follow_buckets, follow_one

ANN, BOB = "ann", next(user for user in map("bob{}".format, count()) if bucket_of(user) != bucket_of("ann"))


def at(sequence: int, **others: int) -> FeedPosition:
    """Return a position in all buckets, with another one in those of some users."""
    by_bucket = {bucket_of(user): other for user, other in others.items()}
    return FeedPosition(tuple(by_bucket.get(bucket, sequence) for bucket in range(BUCKETS)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model-8" / "vectors.db"


def begun(path: Path, changes: list[Touched], until: FeedPosition) -> None:
    with closing(Backlog(path)) as backlog:
        backlog.follow("log")
        backlog.feed(changes, until)


def test_from_one_bucket_to_many(path: Path, tmp_path: Path) -> None:
    begun(path, [Touched(3, ANN, "a"), Touched(7, BOB, "b")], FeedPosition.at(9))
    for _ in range(2):  # it may be killed in between, and do it again
        follow_buckets(tmp_path)
    with closing(Backlog(path)) as backlog:
        assert backlog.fed == at(9)
        assert backlog.checkpoint == at(9, **{ANN: 2, BOB: 6})
        assert [one.message_id for one in backlog.take([], 9)] == ["a", "b"]
        backlog.mark_applied(backlog.take([ANN], 1))
        assert backlog.checkpoint == at(9, **{BOB: 6})


def test_from_many_buckets_to_one(path: Path, tmp_path: Path) -> None:
    begun(path, [Touched(3, ANN, "a"), Touched(7, BOB, "b")], at(9))
    for _ in range(2):
        follow_one(tmp_path, at(9), {})
    with closing(Backlog(path)) as backlog:
        assert (backlog.fed, backlog.checkpoint) == (FeedPosition.at(9), FeedPosition.at(2))
        assert [one.message_id for one in backlog.take([], 9)] == ["a", "b"]


def test_a_bucket_that_is_behind_is_not_skipped(path: Path, tmp_path: Path) -> None:
    begun(path, [], at(9, **{ANN: 4}))
    for _ in range(2):
        follow_one(tmp_path, at(7, **{ANN: 8}), {})
    with closing(Backlog(path)) as backlog:
        assert backlog.fed == FeedPosition.at(4)


def test_of_an_index_that_several_servers_fill_the_shared_books_count(tmp_path: Path) -> None:
    path = tmp_path / "model-8-b4-server-0123abcd" / "vectors.db"
    begun(path, [Touched(3, ANN, "a")], at(0, **{ANN: 5}))
    aside = [SetAside(bucket_of(BOB), BOB, "b", 6, "TEXT")]
    for _ in range(2):
        follow_one(tmp_path, at(9), {"model-8-b4": IndexBooks(at(9), aside), "another": IndexBooks(at(1), [])})
    with closing(Backlog(path)) as backlog:
        assert (backlog.fed, backlog.followed()) == (FeedPosition.at(9), FeedPosition.at(9))
        assert backlog.aside() == [(0, BOB, "b", 6, "TEXT")]
        assert backlog.take([], 9) == []
