"""Interface of the vector index, which every engine implements."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from nomemory.server.embedding.vector import Vector
from nomemory.server.message import Role
from nomemory.server.message_filter import Filter


@dataclass(frozen=True, slots=True)
class VectorPoint:
    """The vector of one part of one version of a message. Its id is derived from user, message and part.

    `marks` are digests of the entries of the message's metadata.
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
    """A version of a message with the score of its best part.

    The message log may no longer have the version of this sequence.
    """

    score: float
    ts_us: int
    sequence: int


@dataclass(frozen=True, slots=True)
class StoredPoints:
    """The points of some users.

    Attributes:
        by_user: for each user the number of sound points by the sequence of their version.
        unsound: the number of points that cannot be used.
    """

    by_user: list[Counter[int]]
    unsound: int


class NoRoomError(Exception):
    """The disk or the memory is too small for an operation. The text says how much is missing."""


class VectorSearch(Protocol):
    """The read operations of a vector index.

    Raises (any method): Fault INDEX_UNAVAILABLE, the engine does not answer.
    """

    async def search(self, user_id: str, vector: Vector, filters: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages by score and `ts` descending.

        Returns at least `limit` messages if there are as many. Ties at the limit are kept whole, so there may be more.
        """

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vector of each message's first part. Messages without one are left out."""


MessageKey = tuple[str, str]
"""User id and message id."""


class VectorIndex(VectorSearch, Protocol):
    """Exact nearest neighbours by cosine within one user. All methods run on the event loop.

    Raises (any method): Fault INDEX_UNAVAILABLE, the engine does not answer.
    """

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points. A point with the same user, message and part is overwritten."""

    async def remove(self, user_id: str, message_id: str, *, from_part: int = 0) -> None:
        """Remove the points of a message from a part on."""

    async def with_surplus_points(self, parts: Mapping[MessageKey, int]) -> Collection[MessageKey]:
        """Return the messages that may have more points than so many each, so that some have to be removed."""

    async def version_vectors(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the stored vectors of a version of a message, part by part from the first one."""

    async def remove_versions(self, user_id: str, sequences: Sequence[int]) -> None:
        """Remove the points of versions of a user's messages."""

    async def users(self) -> set[str]:
        """Return the users who have points, and perhaps some who had."""

    async def flush(self) -> None:
        """Make everything that was stored survive a power cut."""

    async def erase_deleted(self) -> None:
        """Erase the content of removed points from the engine's files.

        On a Qdrant server the content stays until the server optimises its segments.

        Raises:
            NoRoomError: there is no space for it now. The index is unchanged.
        """

    async def count(self) -> int:
        """Count the points."""

    async def read_points(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        """Read the points of users by the condition of a search, so that every point counted is also found.

        Args:
            user_ids: the users.
            with_vectors: also check that vectors are sound.
        """

    async def reset(self) -> None:
        """Start over with an empty index, because the stored one is damaged beyond repair."""

    async def drop(self, collection: str) -> None:
        """Delete another collection on the engine's server. An embedded engine does nothing."""

    async def probe(self) -> None:
        """Return if the engine answers.

        Raises:
            ForeignCollectionError: the collection is filled from another message log.
        """

    @property
    def suspect(self) -> asyncio.Event:
        """Set when points may have been lost: the engine failed or was away. Cleared by whoever checks the index."""

    async def close(self) -> None:
        """Close the engine."""
