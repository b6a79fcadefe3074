"""The hash buckets of users in a PostgreSQL message log. A SQLite message log has a single bucket for all users."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

BUCKETS: Final = 64
_CACHED_USERS: Final = 4096


@lru_cache(_CACHED_USERS)
def compute_bucket(user_id: str) -> int:
    """Return the bucket of a user, from 0 to 63."""
    return blake2b(user_id.encode(), digest_size=1).digest()[0] % BUCKETS


IN_ANY_BUCKET: Final = f"bucket = ANY(ARRAY{list(range(BUCKETS))}::smallint[])"
"""A condition that is true for every row. It lets PostgreSQL use an index whose first column is the bucket."""


EACH_BUCKET: Final = f"generate_series(0, {BUCKETS - 1}) AS each(bucket)"
"""A table expression that lists the numbers of all buckets."""
