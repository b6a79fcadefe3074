"""What one model's vectors are searched with, and how far its index is. Vectors of two models are never compared."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cachetools import TTLCache

from nomemory.server.admission.fair_slots import FairSlots, turn_at, waiting_elsewhere
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.log.position import FeedPosition
from nomemory.server.message import Filter
from nomemory.server.vector.protocol import VectorHit, VectorSearch


class VectorProgress(Protocol):
    """How far the vector index has come, user by user."""

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to `sequence` is not applied yet."""

    def look(self) -> None:
        """Have the log looked at now, because somebody waits for what another server may have written."""

    def note_query(self, user_id: str) -> None:
        """Remember that this user is being queried: their backlog goes first."""


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """A model, and the index of what it has embedded.

    Attributes:
        name: of the collection; two spaces of a server have two.
        embedder: makes the vectors.
        vectors: finds the nearest of them, for so many reads at a time.
        progress: tells how far the index is.
    """

    name: str
    embedder: Embedder
    vectors: VectorSearch
    progress: VectorProgress


@dataclass(frozen=True, slots=True)
class IndexerStatus:
    """How far the index has come. Counts and ids are of one user where one was asked for.

    `fed` is up to where the work is known; what came later is not counted.
    """

    fed: FeedPosition
    checkpoint: FeedPosition
    pending: int
    parked: int
    parked_ids: tuple[str, ...]


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


_USERS_MAX = 256


class HotUsers:
    """The users of the latest queries.

    Args:
        hot_s: how long after a query a user counts.
        clock: gives seconds.
    """

    def __init__(self, hot_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._hot = TTLCache[str, None](_USERS_MAX, hot_s, clock)

    def note(self, user_id: str) -> bool:
        """Remember a query; tell whether the user was not hot before."""
        is_new = user_id not in self._hot
        self._hot[user_id] = None
        return is_new

    def users(self) -> list[str]:
        """Return the hot users, the latest query first."""
        return list(self._hot)[::-1]


class Served:
    """A space that reads use: as a context it is the space, for one read."""

    __slots__ = ("_unused", "reads", "space")

    def __init__(self, space: VectorSpace) -> None:
        self.space = space
        self.reads = 0
        self._unused: asyncio.Event | None = None

    def __enter__(self) -> VectorSpace:
        """Begin a read."""
        self.reads += 1
        return self.space

    def __exit__(self, *_error: object) -> None:
        """End it."""
        self.reads -= 1
        if self._unused is not None and not self.reads:
            self._unused.set()

    async def unused(self) -> None:
        """Wait until the last read has ended. None may begin meanwhile."""
        self._unused = asyncio.Event()
        if self.reads:
            await self._unused.wait()


class ServingSpace:
    """Gives each read the space of its beginning, for as long as it lasts.

    Args:
        space: the first one.
    """

    def __init__(self, space: VectorSpace) -> None:
        self._now = Served(space)

    @property
    def now(self) -> VectorSpace:
        """The space of reads that begin now."""
        return self._now.space

    def used(self) -> Served:
        """Use one space for a whole read."""
        return self._now

    async def replace(self, space: VectorSpace, longest_s: float) -> VectorSpace:
        """Let further reads use another space; return the former one when no read uses it, or after so many seconds."""
        former = self._now
        self._now = Served(space)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await former.unused()
        return former.space


class SharedVectors:
    """Implements `VectorSearch` over another. A search that is given up leaves the queue, or is withdrawn.

    Args:
        within: what searches.
        at_once: how many searches are with it at a time.
    """

    def __init__(self, within: VectorSearch, at_once: int) -> None:
        self._within = within
        self._slots = FairSlots(at_once)

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        async with waiting_elsewhere(), turn_at(self._slots):
            return await self._within.search(user_id, vector, narrowed, limit)

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of messages' first parts."""
        async with waiting_elsewhere(), turn_at(self._slots):
            return await self._within.vectors(user_id, message_ids)
