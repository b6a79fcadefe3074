"""The protocol of a vector index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nomemory.server.embedding.vector import Vector
from nomemory.server.message import Role
from nomemory.server.message_filter import Filter

if TYPE_CHECKING:
    import asyncio  # not needed in the vector index process


@dataclass(frozen=True, slots=True)
class VectorPoint:
    """The vector of one part of a message version.

    The id of a point is derived from user, message and part. `metadata_hashes` contains a hash of each metadata entry.
    """

    user_id: str
    message_id: str
    part: int
    sequence: int
    ts_us: int
    role: Role
    conversation_id: str
    vector: Vector
    metadata_hashes: tuple[str, ...] = ()


class VectorHit(NamedTuple):
    """A message version, with the score of its best part. The message log may have deleted the version since."""

    score: float
    ts_us: int
    sequence: int


@dataclass(frozen=True, slots=True)
class StoredPoints:
    """The points that an index stores for several users.

    Attributes:
        counts_by_user: for each user, the number of valid points by sequence number.
        invalid_count: the number of points with a damaged payload or vector.
    """

    counts_by_user: list[Counter[int]]
    invalid_count: int


class InsufficientSpaceError(Exception):
    """There is not enough disk space or memory for an operation.

    The message states the required and the available amount.
    """


class VectorSearch(Protocol):
    """The read operations of a vector index.

    Every method can raise the Fault INDEX_UNAVAILABLE if the engine does not respond.
    """

    async def search(self, user_id: str, vector: Vector, filters: Filter, limit: int) -> list[VectorHit]:
        """Return the most similar messages by score and `ts` descending.

        The result has at least `limit` messages, if there are that many, and includes all ties with the last message.
        """

    async def read_vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vector of the first part of each message. Messages without a vector are omitted."""


MessageKey = tuple[str, str]
"""User id and message id."""


class VectorIndex(VectorSearch, Protocol):
    """An index for exact nearest-neighbor search by cosine among one user's messages.

    All methods run on the event loop.

    Every method can raise the Fault INDEX_UNAVAILABLE if the engine does not respond.
    """

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points. A point with the same user, message and part is overwritten."""

    async def remove(self, user_id: str, message_id: str, *, from_part: int = 0) -> None:
        """Remove the points of a message from part `from_part` on."""

    async def find_surplus_messages(self, parts: Mapping[MessageKey, int]) -> Collection[MessageKey]:
        """Return the messages that may have more points than `parts` states."""

    async def read_version_vectors(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the stored vectors of a version of a message, in the order of its parts."""

    async def remove_versions(self, user_id: str, sequences: Sequence[int]) -> None:
        """Remove the points of versions of a user's messages."""

    async def list_users(self) -> set[str]:
        """Return the users who have points. The result may include users whose points were removed."""

    async def flush(self) -> None:
        """Write all stored points to durable storage, so that they survive a power failure."""

    async def erase_deleted(self) -> None:
        """Erase the content of removed points from the engine's files.

        On a Qdrant server, the content remains until the server optimizes its segments.

        Raises:
            InsufficientSpaceError: there is not enough disk space, and the index was not changed.
        """

    async def count(self) -> int:
        """Count the points."""

    async def read_points(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        """Count the points of users by message version. A point is counted only if a search can find it.

        If `with_vectors`, the vectors are validated in addition to the payloads.
        """

    async def reset(self) -> None:
        """Replace a damaged index with an empty one."""

    async def drop_collection(self, collection: str) -> None:
        """Delete another collection on the Qdrant server. For an embedded engine, do nothing."""

    async def probe(self) -> None:
        """Check that the engine of the index responds.

        Raises:
            ForeignCollectionError: the collection belongs to another message log.
        """

    @property
    def reconcile_requested(self) -> asyncio.Event:
        """An event that is set when the engine may have lost points.

        The reconciliation with the message log clears the event.
        """

    async def close(self) -> None:
        """Close the engine."""
