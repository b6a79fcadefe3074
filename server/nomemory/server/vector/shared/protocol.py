"""An index on a Qdrant server that several servers search and one of them fills: what they know of it.

That is kept beside the log, in its database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from nomemory.server.log.position import FeedPosition
from nomemory.server.vector.space import IndexerStatus


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


class Filled(NamedTuple):
    """How far an index is: where the next filler goes on, and what can never be taken."""

    checkpoint: FeedPosition
    aside: Sequence[SetAside]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a filler has come.

    Attributes:
        checkpoint: up to where everything has been applied or set aside.
        users: some who are further.
        aside: what is set aside, if that may have changed.
    """

    checkpoint: FeedPosition = field(default_factory=FeedPosition)
    users: tuple[UserReached, ...] = ()
    aside: frozenset[SetAside] | None = None


class FillerLock(Protocol):
    """Belongs to the one server that may fill an index, and lets it say how far it is. Its calls must not overlap.

    Raises (all but `lose` and `leave`): Fault STORAGE_UNAVAILABLE, the database cannot be reached; the lock is lost.
    """

    @property
    def lease_s(self) -> float:
        """How long the lock is kept for a server that says nothing, in seconds."""

    async def take(self) -> bool:
        """Take the lock if nobody has it; return whether it was taken. Say that this server uses the index."""

    async def was_left(self) -> bool:
        """Return whether who had the lock before gave it up in good order. Else it may still be writing."""

    async def renew(self) -> None:
        """Keep the lock, and say that this server uses the index."""

    async def begin(self, log: str, seed: FeedPosition | None, empty: Callable[[], Awaitable[None]]) -> None:
        """Note that this server fills. Begin to follow this log, unless the index has followed it before.

        Args:
            log: its name (`LogIdentity.name`).
            seed: how far the index has followed it already, if it has; else it is emptied.
            empty: empties it.
        """

    async def filled(self) -> Filled:
        """Return how far the index is."""

    async def publish(self, progress: Progress) -> None:
        """Let all servers know how far the index is."""

    async def start_over(self) -> None:
        """Have it filled from the beginning."""

    async def queried(self, note: Callable[[str], None]) -> None:
        """Have `note` called with users whom any server is queried about and whose messages are not all there.

        That ends with the lock.
        """

    async def lose(self) -> None:
        """Let go of the lock, or of what is left of it, without a word of what became of the work."""

    async def leave(self) -> None:
        """Give up the lock in good order: nothing is being written any more. The index is not used by this server."""


class SharedIndex(Protocol):
    """What every server knows of an index; implements `VectorProgress`, too.

    Raises (any method that is awaited): Fault STORAGE_UNAVAILABLE while the database cannot be reached.
    """

    def filler_lock(self) -> FillerLock:
        """Return the lock of the filler, which may be asked for again when it has been left."""

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be in the index yet."""

    def look(self) -> None:
        """Do nothing: as with `note_query`."""

    def note_query(self, user_id: str) -> None:
        """Do nothing: who is behind is told to the filler when it is found out."""

    async def status(self, user_id: str | None = None, prefix: str = "") -> IndexerStatus:
        """Say how far the index has come, for one user or for all whose ids begin with a prefix."""

    async def checkpoint(self) -> FeedPosition:
        """Return up to where everything has been applied or set aside, whoever did it."""

    async def abandoned(self) -> bool:
        """Forget the index if no server has used it for a while; return whether that is so."""

    async def close(self) -> None:
        """Close its connections."""
