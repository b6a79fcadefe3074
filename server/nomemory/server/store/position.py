"""Which log it is, and how far something has followed it.

A log in PostgreSQL has 64 buckets of users. Within a bucket changes become visible in the order of their sequences;
over all buckets they need not. A log in a file has one bucket, which is everybody's.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

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


class LogIdentity(NamedTuple):
    """The random name that a log got when it was created, and its epoch.

    The epoch is empty at first. It changes whenever the log loses changes that others may have seen: when a backup is
    restored, or when a loss is accepted. Within one epoch a sequence means one change and nothing else.
    """

    log_id: str
    epoch: str = ""

    @property
    def name(self) -> str:
        """Log and epoch as one text."""
        return f"{self.log_id}{self.epoch}"


class LogPosition(NamedTuple):
    """A log, and the sequence of its latest change."""

    identity: LogIdentity
    sequence: int


class Checkpoint(NamedTuple):
    """How far something has followed a log, which it knows by name (`LogIdentity.name`).

    What a version of the server wrote that knew no epochs does not say which log it followed: its name is empty.
    """

    log: str
    sequence: int

    def is_of(self, log: LogIdentity) -> bool:
        """Return whether it followed this log, in this epoch."""
        return self.log == log.name if self.log else not log.epoch

    def can_go_on(self, log: LogPosition) -> bool:
        """Return whether it can go on following a log from here."""
        return self.is_of(log.identity) and self.sequence <= log.sequence


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

    def has(self, other: FeedPosition) -> bool:
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

    def settled(self, reached: FeedPosition) -> int:
        """Return the sequence up to which this has all that a log has which has come to `reached`."""
        behind = [ours for ours, theirs in self._beside(reached) if ours < theirs]
        return min(behind, default=max(self.latest, reached.latest))

    def encoded(self) -> bytes:
        """Return it as bytes: the sequences, eight bytes each, little-endian."""
        return struct.pack(f"<{len(self.sequences)}q", *self.sequences)

    @classmethod
    def decoded(cls, stored: bytes | int) -> FeedPosition:
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
