"""Stored records that a commit reads: message versions, bucket states and requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class MessageVersion:
    """A message version as it is stored in the message log."""

    ts_us: int
    sequence: int
    wire: bytes
    embedding: bytes | None


class BucketState(NamedTuple):
    """The latest sequence number and the latest generated id number of a bucket; 0 for none."""

    sequence: int
    last_id: int


class StoredRequest(NamedTuple):
    """The record of a request with generated ids: the first id number, and the size of the batch."""

    first_id: int
    size: int
