"""What every server knows of an index that several of them fill."""

from __future__ import annotations

from typing import Protocol

from nomemory.server.log.position import FeedPosition
from nomemory.server.vector.bucket_claims import BucketClaims
from nomemory.server.vector.index_progress import IndexerStatus


class SharedIndex(Protocol):
    """Reads the books of an index; implements `VectorProgress`, too.

    Raises (any method that is awaited): Fault STORAGE_UNAVAILABLE while they cannot be reached.
    """

    def claims(self) -> BucketClaims:
        """Return the books, for a server that fills buckets. It may be called again when it has left them."""

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be in the index yet."""

    def look(self) -> None:
        """Do nothing: as with `note_query`."""

    def note_query(self, user_id: str) -> None:
        """Do nothing: who is behind is told to those who fill the index when it is found out."""

    async def status(self, user_id: str | None = None, prefix: str = "") -> IndexerStatus:
        """Say how far the index has come, for one user or for all whose ids begin with a prefix."""

    async def checkpoints(self) -> FeedPosition:
        """Return up to where everything has been applied or set aside, whoever did it."""

    async def abandoned(self) -> bool:
        """Close the books if no server has used the index for a while; return whether that is so."""

    async def close(self) -> None:
        """Close its connections."""
