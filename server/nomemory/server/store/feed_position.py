"""Positions in the change feed."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nomemory.server.store.buckets import compute_bucket

_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """A position in the change feed: a sequence number for each bucket, or a single one for all buckets."""

    sequences: tuple[int, ...] = (0,)

    @classmethod
    def from_sequence(cls, sequence: int) -> FeedPosition:
        """Return the position that has the same sequence number in every bucket."""
        return cls((sequence,))

    @property
    def latest(self) -> int:
        """The largest sequence number of all buckets."""
        return max(self.sequences)

    def get_sequence(self, bucket: int) -> int:
        """Return the sequence number of this position in a bucket."""
        return self.sequences[bucket % len(self.sequences)]

    def get_user_sequence(self, user_id: str) -> int:
        """Return the sequence number of this position in the bucket of a user."""
        return self.sequences[0] if len(self.sequences) == 1 else self.get_sequence(compute_bucket(user_id))

    def is_at_or_after(self, other: FeedPosition) -> bool:
        """Return whether this position is at or after another one in every bucket."""
        return all(ours >= theirs for ours, theirs in self._pair_buckets(other))

    def maximum(self, other: FeedPosition) -> FeedPosition:
        """Return the position with the larger of the two sequence numbers of each bucket."""
        return FeedPosition(tuple(max(ours, theirs) for ours, theirs in self._pair_buckets(other)))

    def minimum(self, other: FeedPosition) -> FeedPosition:
        """Return the position with the smaller of the two sequence numbers of each bucket."""
        return FeedPosition(tuple(min(ours, theirs) for ours, theirs in self._pair_buckets(other)))

    def restrict_buckets(self, buckets: Collection[int]) -> FeedPosition:
        """Return the position with a sequence number of 0 for all buckets except `buckets`."""
        return FeedPosition(
            tuple(self.get_sequence(bucket) if bucket in buckets else 0 for bucket in range(len(self.sequences)))
        )

    def compute_covered_sequence(self, end: FeedPosition) -> int:
        """Return the largest sequence number up to which this position covers all changes of a feed ending at `end`."""
        behind = [ours for ours, theirs in self._pair_buckets(end) if ours < theirs]
        return min(behind, default=max(self.latest, end.latest))

    def encode(self) -> bytes:
        """Encode the sequence numbers as little-endian 64-bit integers."""
        return struct.pack(f"<{len(self.sequences)}q", *self.sequences)

    @classmethod
    def decode(cls, stored: bytes | int) -> FeedPosition:
        """Decode a stored position; an integer applies to every bucket.

        Raises:
            ValueError: the length of the stored position is not a positive multiple of 8 bytes.
        """
        if isinstance(stored, int):
            return cls.from_sequence(stored)
        if not stored or len(stored) % _NUMBER_BYTES:
            raise ValueError(f"feed position: expected a positive multiple of {_NUMBER_BYTES} bytes, got {len(stored)}")
        return cls(struct.unpack(f"<{len(stored) // _NUMBER_BYTES}q", stored))

    def _pair_buckets(self, other: FeedPosition) -> Iterator[tuple[int, int]]:
        buckets = max(len(self.sequences), len(other.sequences))
        return ((self.get_sequence(bucket), other.get_sequence(bucket)) for bucket in range(buckets))
