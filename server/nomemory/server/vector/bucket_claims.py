"""Who fills which part of an index that several servers share: the terms, and what keeps the books."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from nomemory.server.log.position import FeedPosition


class SetAside(NamedTuple):
    """A message that can never be taken: the change up to which that is known, and why."""

    bucket: int
    user_id: str
    message_id: str
    latest: int
    reason: str


class UserReached(NamedTuple):
    """A user who is further than the bucket is."""

    bucket: int
    user_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A bucket that this server fills from now on.

    Attributes:
        bucket: which.
        generation: a number that no other claim of the bucket has.
        checkpoint: the sequence up to which everything has been applied or set aside.
        was_abandoned: whether the server before let its time run out, so that it may still be writing.
    """

    bucket: int
    generation: int
    checkpoint: int
    was_abandoned: bool


@dataclass(frozen=True, slots=True)
class Held:
    """What a server may fill, by generation, and how many buckets are its share."""

    generations: dict[int, int]
    share: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a server is with what it fills.

    Attributes:
        checkpoint: up to where everything has been applied or set aside.
        users: some who are further.
        aside: what is set aside, if that may have changed.
    """

    checkpoint: FeedPosition = field(default_factory=FeedPosition)
    users: tuple[UserReached, ...] = ()
    aside: frozenset[SetAside] | None = None


class BucketClaims(Protocol):
    """The books of an index that several servers share. They are where the log is.

    Raises (any method that is awaited): Fault STORAGE_UNAVAILABLE while they cannot be reached.
    """

    @property
    def lease_s(self) -> float:
        """How long a claim lasts without being renewed, in seconds."""

    async def begin(self, log: str, seed: FeedPosition | None, empty: Callable[[], Awaitable[None]]) -> None:
        """Begin the books of this log, unless another server has.

        Args:
            log: its name (`LogIdentity.name`).
            seed: how far the index has followed it already, if it has; else it is emptied.
            empty: empties it.
        """

    async def renew(self) -> Held:
        """Renew all claims, and say that this server is there."""

    async def claim(self, most: int) -> list[Claim]:
        """Take up to so many buckets that nobody holds."""

    async def aside(self, buckets: Collection[int]) -> list[SetAside]:
        """Return what is set aside in some buckets."""

    async def publish(self, generations: dict[int, int], progress: Progress) -> None:
        """Note how far the buckets are that are still held in that generation."""

    async def release(self, buckets: Collection[int]) -> None:
        """Give buckets up at once."""

    async def start_over(self) -> None:
        """Have all buckets filled from the beginning. All claims end."""

    async def checkpoints(self) -> FeedPosition:
        """Return up to where everything has been applied or set aside, whoever did it."""

    async def queried(self, note: Callable[[str], None]) -> None:
        """Have `note` called with each user that any server is queried about and whose messages are not all there."""

    async def leave(self) -> None:
        """Give up everything, and be no longer there."""


def surplus(held: Held) -> Sequence[int]:
    """Return the buckets beyond a server's share."""
    return sorted(held.generations)[held.share :]
