"""What a commit looks up: stored versions, bucket states and earlier requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a message that the log holds."""

    ts_us: int
    sequence: int
    wire: bytes
    embedding: bytes | None


class BucketState(NamedTuple):
    """The latest sequence of a bucket, and the number of the latest id that was made in it; 0: none was."""

    sequence: int
    last_id: int


class StoredRequest(NamedTuple):
    """What is remembered of a request for a user: the number of its first id, and the size of its batch."""

    first_id: int
    size: int
