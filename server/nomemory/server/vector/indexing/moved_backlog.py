"""Makes of a backlog that followed a log of one kind one that follows the same log where it was moved to.

A log in a file has one bucket, one in a database has many. Nothing is work again but what was not done.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from nomemory.server.log.position import BUCKETS, FeedPosition, bucket_of
from nomemory.server.vector.index_progress import IndexCheckpoint
from nomemory.server.vector.indexing.backlog import Backlog

_ON_SERVER: Final = re.compile(r"(?P<name>.+)-server-[0-9a-f]{8}")
"""What the directory of a collection on a Qdrant server is called: its name there, and a mark of the server."""


def has_own_index(vectors: Path) -> bool:
    """Return whether a directory of collections has one whose vectors are in it, not on a Qdrant server."""
    return any(not _ON_SERVER.fullmatch(path.parent.name) for path in vectors.glob("*/vectors.db"))


def follow_buckets(vectors: Path) -> None:
    """Have the backlogs of a directory of collections, none of which is in use, follow a log of many buckets."""
    for path in sorted(vectors.glob("*/vectors.db")):
        backlog = Backlog(path)  # brings it forward
        fed = backlog.fed()
        backlog.close()
        many = FeedPosition(tuple(fed.of(bucket) for bucket in range(BUCKETS)))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.create_function("bucket_of", 1, bucket_of, deterministic=True)
            connection.execute("UPDATE work SET bucket = bucket_of(user_id)")
            connection.execute("UPDATE feed SET fed = ?", (many.encoded(),))


def follow_one(vectors: Path, reached: FeedPosition, shared: Mapping[str, IndexCheckpoint]) -> None:
    """Have the backlogs of a directory of collections, none of which is in use, follow a log of one bucket.

    Args:
        vectors: the directory.
        reached: how far the log is, that they have followed by buckets.
        shared: what is known of indexes that servers share, by their names on the engine's server.
    """
    for path in sorted(vectors.glob("*/vectors.db")):
        named = _ON_SERVER.fullmatch(path.parent.name)
        filled = shared.get(named["name"]) if named else None
        backlog = Backlog(path)
        if filled is not None:
            backlog.start_over(aside=filled.dead_letters)
        fed = (backlog.fed() if filled is None else filled.checkpoint).settled(reached)
        backlog.close()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE work SET bucket = 0")
            connection.execute("UPDATE feed SET fed = ?", (fed,))
            if filled is not None:
                connection.execute("UPDATE followed SET is_begun = 1")
