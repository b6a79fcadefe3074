"""The vector index as the rest of the server sees it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from nomemory.server.embedding.vector import Vector
from nomemory.server.message import Filter, Role


@dataclass(frozen=True, slots=True)
class VectorPoint:
    """One part of one version of a message. Its id is derived from user, message and part.

    `marks` are those of the entries of its metadata.
    """

    user_id: str
    message_id: str
    part: int
    sequence: int
    ts_us: int
    role: Role
    conversation_id: str
    vector: Vector
    marks: tuple[str, ...] = ()


class VectorHit(NamedTuple):
    """A version of a message, at its best part. `sequence` resolves in the log, or is gone there."""

    score: float
    ts_us: int
    sequence: int


@dataclass(frozen=True, slots=True)
class StoredPoints:
    """What is stored of some users.

    Attributes:
        by_user: for each user the number of sound points by the sequence of their version.
        unsound: how many of all points cannot be used.
    """

    by_user: list[Counter[int]]
    unsound: int


class NoRoomError(Exception):
    """There is no room, on the disk or in memory, for what was asked. The text says what is missing."""


class VectorSearch(Protocol):
    """What reads need of a vector index, in whichever process it is."""

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages by score and `ts` descending, each once, at its best part.

        At least `limit` if there are as many; hits of equal score are never cut apart, so there may be more.

        Raises:
            Fault: INDEX_UNAVAILABLE if the engine does not answer.
        """

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vector of each message's first part; messages without one are not in the answer.

        Raises:
            Fault: INDEX_UNAVAILABLE if the engine does not answer.
        """


MessageKey = tuple[str, str]
"""A user's id, and the id of a message of theirs."""


class VectorIndex(VectorSearch, Protocol):
    """Nearest neighbours within one user, exactly, by cosine. All methods run on the event loop.

    Raises (any method): Fault INDEX_UNAVAILABLE if the engine does not answer.
    """

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points; a point with the same user, message and part is overwritten."""

    async def remove(self, user_id: str, message_id: str, *, from_part: int = 0) -> None:
        """Remove the points of a message from a part on."""

    async def exceeding(self, parts: Mapping[MessageKey, int]) -> Collection[MessageKey]:
        """Return which messages may have more points than so many each: those from which something is to be removed."""

    async def stored(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the vectors that are stored of a version of a message, of its parts from the first on."""

    async def remove_versions(self, user_id: str, sequences: Sequence[int]) -> None:
        """Remove the points of versions of a user's messages."""

    async def users(self) -> set[str]:
        """Return the users of whom there are points; perhaps some more, of whom there were."""

    async def flush(self) -> None:
        """Make everything that was stored survive a power cut."""

    async def wipe_removed(self) -> None:
        """Take what was removed by now out of the engine's files.

        What is in another program's hands stays there until that wipes it out.

        Raises:
            NoRoomError: there is no room to do it now. The index is as it was.
        """

    async def count(self) -> int:
        """Count the points."""

    async def read_points(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        """Read what is stored of users, in the way of a search, so that what is counted is also found.

        Args:
            user_ids: whose.
            with_vectors: whether a point has to have a sound vector, too.
        """

    async def give_up(self) -> None:
        """Begin with an empty index, because what is stored is damaged beyond repair."""

    async def drop(self, collection: str) -> None:
        """Delete another collection on the engine's server, if it has one. Files are none of its business."""

    async def probe(self) -> None:
        """Return if the engine answers.

        Raises:
            ForeignCollectionError: what it has is filled from another log.
        """

    @property
    def suspect(self) -> asyncio.Event:
        """Set when points may have been lost: the engine failed, or was away. Whoever looks into it clears it."""

    async def close(self) -> None:
        """Close the engine."""
