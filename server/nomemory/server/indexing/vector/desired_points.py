"""The points that the index should have for a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.embedding.vector import UnusableVectorError, Vector, normalize_vector
from nomemory.server.indexing.vector.backlog import PendingMessage
from nomemory.server.message import Message
from nomemory.server.metadata_hashes import compute_entry_hashes
from nomemory.server.search.semantic.protocol import VectorPoint


@dataclass(frozen=True, slots=True)
class DesiredPoints:
    """The points that a message should have: one for each text, or one for the caller's vector, or none.

    Attributes:
        message: the current version of the message; None if the message was deleted.
        sequence: the sequence number of the current version.
        is_new: whether the index is known to have no points of the message.
        texts: the texts to embed; empty if `caller_vector` or `stored` has the vectors.
        caller_vector: the normalized vector that the caller stored with the message.
        stored: the vectors of the texts, if the index already contains them.
    """

    item: PendingMessage
    message: Message | None = None
    sequence: int = 0
    is_new: bool = False
    texts: tuple[str, ...] = ()
    caller_vector: Vector | None = None
    stored: tuple[Vector, ...] = ()

    def build_points(self, vectors: Sequence[Vector]) -> list[VectorPoint]:
        """Return the points of the message, given one vector for each of its texts."""
        message = self.message
        if message is None:
            return []
        parts = self.stored or (vectors if self.caller_vector is None else [self.caller_vector])
        marks = compute_entry_hashes(message.metadata.items())
        return [
            VectorPoint(
                message.user_id,
                message.message_id,
                part,
                self.sequence,
                message.ts_us,
                message.role,
                message.conversation_id,
                vector,
                marks,
            )
            for part, vector in enumerate(parts)
        ]


def normalize_caller_vector(vector: Vector | None, dimension: int) -> Vector | None:
    """Normalize a caller's vector to length one.

    Return None if there is no vector, or if the vector is zero, is not finite, or does not have `dimension` numbers.
    """
    try:
        return normalize_vector(vector, dimension) if vector else None
    except UnusableVectorError:
        return None
