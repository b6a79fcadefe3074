"""Convert the backlog of the vector index after a log migration.

A message log in SQLite has one bucket, and a message log in PostgreSQL has 64. Each new bucket gets the position of the
single bucket, and pending messages are assigned to the bucket of their user. The vector index can then resume without
embedding the messages again.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nomemory.server.indexing.vector.backlog import Backlog
from nomemory.server.store.buckets import BUCKETS, compute_bucket
from nomemory.server.store.feed_position import FeedPosition


def split_backlogs_into_buckets(vectors: Path) -> None:
    """Split the backlog of every collection in a directory into buckets; none of the backlogs may be in use.

    The operation is idempotent.
    """
    for path in sorted(vectors.glob("*/vectors.db")):
        with closing(Backlog(path)) as backlog:  # opening a backlog upgrades its schema
            position = backlog.read_feed_position()
        by_bucket = FeedPosition(tuple(position.get_sequence(bucket) for bucket in range(BUCKETS)))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.create_function("bucket_of", 1, compute_bucket, deterministic=True)
            connection.execute("UPDATE work SET bucket = bucket_of(user_id)")
            connection.execute("UPDATE feed SET fed = ?", (by_bucket.encode(),))
