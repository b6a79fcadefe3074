"""What one model's vectors are searched with, and how far its index is. Vectors of two models are never compared."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from cachetools import TTLCache

from nomemory.server.admission.round_robin_limit import RoundRobinLimit
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import index_unavailable
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


_LOCAL_QUERIES: Final = 2
"""The local embedder takes one text after another. A second one is there when the first is done."""
_REMOTE_QUERIES: Final = 64


def query_limit(embedder: Embedder) -> RoundRobinLimit:
    """Return the limit of the queries that an embedder gets at a time."""
    return RoundRobinLimit(_LOCAL_QUERIES if embedder.kind == "local" else _REMOTE_QUERIES)


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """A model, and the index of what it has embedded.

    Attributes:
        name: of the collection; two spaces of a server have two.
        embedder: makes the vectors.
        vectors: finds the nearest of them. Users take turns.
        queries: limits how many queries are with the embedder at a time. Users take turns.
        direct: the same, for reads that have waited for their turn in another process.
        progress: tells how far the index is.
    """

    name: str
    embedder: Embedder
    vectors: VectorSearch
    direct: VectorSearch
    progress: VectorProgress
    queries: RoundRobinLimit = field(default_factory=lambda: RoundRobinLimit(_REMOTE_QUERIES))

    async def embed_query(self, user_id: str, text: str) -> Vector:
        """Embed a query of a user. A cancelled one leaves the queue."""
        async with self.queries.slot(user_id):
            return await self.embedder.embed_query(text)


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


_RETRY_AFTER_S = 0.1


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
        self._former: Served | None = None

    @property
    def now(self) -> VectorSpace:
        """The space of reads that begin now."""
        return self._now.space

    def used(self) -> Served:
        """Use one space for a whole read."""
        return self._now

    def named(self, name: str) -> VectorSpace:
        """Return the space of that name, for a read that has begun in another process.

        Raises:
            Fault: INDEX_UNAVAILABLE, it is gone.
        """
        for served in (self._now, self._former):
            if served is not None and served.space.name == name:
                return served.space
        message = "the vector index has been replaced by that of another model"
        raise index_unavailable(message, retry_after_s=_RETRY_AFTER_S)

    async def replace(self, space: VectorSpace, longest_s: float) -> VectorSpace:
        """Let further reads use another space; return the former one when no read uses it, or after so many seconds.

        Until `forget_former` it can be had by its name.
        """
        former = self._former = self._now
        self._now = Served(space)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await former.unused()
        return former.space

    def forget_former(self) -> None:
        """Let go of the space that was replaced."""
        self._former = None


_SEARCHES: Final = 8
"""Searches that are with the vector index at a time."""


class LimitedVectorSearch:
    """Implements `VectorSearch` over another, for a few searches at a time. Users take turns.

    Args:
        searched: what searches.
    """

    def __init__(self, searched: VectorSearch) -> None:
        self._searched = searched
        self._limit = RoundRobinLimit(_SEARCHES)

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        async with self._limit.slot(user_id):
            return await self._searched.search(user_id, vector, narrowed, limit)

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of messages' first parts."""
        async with self._limit.slot(user_id):
            return await self._searched.vectors(user_id, message_ids)
