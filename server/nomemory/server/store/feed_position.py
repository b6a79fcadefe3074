"""How far a follower has read the feed: a sequence for each bucket."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nomemory.server.store.buckets import bucket_of

_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """A sequence for each bucket. Of a single sequence it is the same everywhere, however many buckets the log has."""

    sequences: tuple[int, ...] = (0,)

    @classmethod
    def at(cls, sequence: int) -> FeedPosition:
        """Return the position that is the same in every bucket."""
        return cls((sequence,))

    @property
    def latest(self) -> int:
        """The largest sequence of all buckets."""
        return max(self.sequences)

    def of(self, bucket: int) -> int:
        """Return the sequence of a bucket."""
        return self.sequences[bucket % len(self.sequences)]

    def of_user(self, user_id: str) -> int:
        """Return the sequence of a user's bucket."""
        return self.sequences[0] if len(self.sequences) == 1 else self.of(bucket_of(user_id))

    def covers(self, other: FeedPosition) -> bool:
        """Return whether this has come as far as another position, in every bucket."""
        return all(ours >= theirs for ours, theirs in self._beside(other))

    def merged(self, other: FeedPosition) -> FeedPosition:
        """Return the later sequence of each bucket."""
        return FeedPosition(tuple(max(ours, theirs) for ours, theirs in self._beside(other)))

    def common(self, other: FeedPosition) -> FeedPosition:
        """Return the earlier sequence of each bucket."""
        return FeedPosition(tuple(min(ours, theirs) for ours, theirs in self._beside(other)))

    def only(self, buckets: Collection[int]) -> FeedPosition:
        """Return the position in some buckets; 0 in all others."""
        return FeedPosition(tuple(self.of(bucket) if bucket in buckets else 0 for bucket in range(len(self.sequences))))

    def covered_sequence(self, reached: FeedPosition) -> int:
        """Return the sequence up to which this has all that a log has which has come to `reached`."""
        behind = [ours for ours, theirs in self._beside(reached) if ours < theirs]
        return min(behind, default=max(self.latest, reached.latest))

    def encode(self) -> bytes:
        """Return it as bytes: the sequences, eight bytes each, little-endian."""
        return struct.pack(f"<{len(self.sequences)}q", *self.sequences)

    @classmethod
    def decode(cls, stored: bytes | int) -> FeedPosition:
        """Return what was encoded; of a number, that position everywhere.

        Raises:
            ValueError: it is neither.
        """
        if isinstance(stored, int):
            return cls.at(stored)
        if not stored or len(stored) % _NUMBER_BYTES:
            raise ValueError("these bytes are no position")
        return cls(struct.unpack(f"<{len(stored) // _NUMBER_BYTES}q", stored))

    def _beside(self, other: FeedPosition) -> Iterator[tuple[int, int]]:
        buckets = max(len(self.sequences), len(other.sequences))
        return ((self.of(bucket), other.of(bucket)) for bucket in range(buckets))
