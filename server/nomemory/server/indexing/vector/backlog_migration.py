"""Convert the backlog after a log migration.

A log in SQLite is one bucket, a log in PostgreSQL has 64. The position of the single bucket holds for each of them, and
pending work moves to the bucket of its user. So the vector index goes on where it was, and nothing is embedded again.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nomemory.server.indexing.vector.backlog import Backlog
from nomemory.server.store.buckets import BUCKETS, bucket_of
from nomemory.server.store.feed_position import FeedPosition


def split_backlogs_into_buckets(vectors: Path) -> None:
    """Convert the backlog of each collection in a directory, none of which is in use. Repeating it changes nothing."""
    for path in sorted(vectors.glob("*/vectors.db")):
        with closing(Backlog(path)) as backlog:  # upgrades its schema
            position = backlog.fed()
        by_bucket = FeedPosition(tuple(position.of(bucket) for bucket in range(BUCKETS)))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.create_function("bucket_of", 1, bucket_of, deterministic=True)
            connection.execute("UPDATE work SET bucket = bucket_of(user_id)")
            connection.execute("UPDATE feed SET fed = ?", (by_bucket.encode(),))
