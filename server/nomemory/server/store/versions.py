"""Stored records that a commit reads: message versions, bucket states and requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class MessageVersion:
    """A message version as it is stored in the log."""

    ts_us: int
    sequence: int
    wire: bytes
    embedding: bytes | None


class BucketState(NamedTuple):
    """The latest sequence and the latest generated id number of a bucket; 0 for none."""

    sequence: int
    last_id: int


class StoredRequest(NamedTuple):
    """The record of a request with generated ids: the number of its first id, and its batch size."""

    first_id: int
    size: int
