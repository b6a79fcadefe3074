"""The buckets of users in a PostgreSQL log. A SQLite log has one bucket."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

BUCKETS: Final = 64


_USERS_KEPT: Final = 4096


@lru_cache(_USERS_KEPT)
def bucket_of(user_id: str) -> int:
    """Return a user's bucket: 0 to 63."""
    return blake2b(user_id.encode(), digest_size=1).digest()[0] % BUCKETS


IN_ALL: Final = f"bucket = ANY(ARRAY{list(range(BUCKETS))}::smallint[])"
"""A condition that holds for every row. With it an index that begins with the bucket is used for what stands behind."""


EACH: Final = f"generate_series(0, {BUCKETS - 1}) AS each(bucket)"
"""The buckets as a table."""
