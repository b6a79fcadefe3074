"""Makes of a backlog that followed a log of one kind one that follows the same log where it was moved to.

A log in a file has one bucket, one in a database has many. Nothing is work again but what was not done.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from nomemory.server.log.position import BUCKETS, FeedPosition, bucket_of
from nomemory.server.vector.backlog import Backlog
from nomemory.server.vector.bucket_claims import SetAside

_ON_SERVER: Final = re.compile(r"(?P<name>.+)-server-[0-9a-f]{8}")
"""What the directory of a collection on a Qdrant server is called: its name there, and a mark of the server."""


class IndexBooks(NamedTuple):
    """What is known of an index that several servers fill: how far it is, and what it can never take."""

    checkpoint: FeedPosition
    aside: Sequence[SetAside]


def has_own_index(vectors: Path) -> bool:
    """Return whether a directory of collections has one whose vectors are in it, not on a Qdrant server."""
    return any(not _ON_SERVER.fullmatch(path.parent.name) for path in vectors.glob("*/vectors.db"))


def follow_buckets(vectors: Path) -> None:
    """Have the backlogs of a directory of collections, none of which is in use, follow a log of many buckets."""
    for path in sorted(vectors.glob("*/vectors.db")):
        backlog = Backlog(path)  # brings it forward
        fed = backlog.fed
        backlog.close()
        many = FeedPosition(tuple(fed.of(bucket) for bucket in range(BUCKETS)))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.create_function("bucket_of", 1, bucket_of, deterministic=True)
            connection.execute("UPDATE work SET bucket = bucket_of(user_id)")
            connection.execute("UPDATE feed SET fed = ?", (many.encoded(),))


def follow_one(vectors: Path, reached: FeedPosition, shared: Mapping[str, IndexBooks]) -> None:
    """Have the backlogs of a directory of collections, none of which is in use, follow a log of one bucket.

    Args:
        vectors: the directory.
        reached: how far the log is, that they have followed by buckets.
        shared: what is known of indexes that several servers fill, by their names on the engine's server.
    """
    for path in sorted(vectors.glob("*/vectors.db")):
        named = _ON_SERVER.fullmatch(path.parent.name)
        books = shared.get(named["name"]) if named else None
        backlog = Backlog(path)
        if books is not None:
            backlog.hold(dict.fromkeys(range(BUCKETS), 0), books.aside)
        fed = (backlog.fed if books is None else books.checkpoint).settled(reached)
        backlog.close()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE work SET bucket = 0")
            connection.execute("UPDATE feed SET fed = ?", (fed,))
            if books is not None:
                connection.execute("UPDATE followed SET is_begun = 1")
