"""The points that the index should have for a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.embedding.vector import UnusableVectorError, Vector, l2_normalize
from nomemory.server.indexing.vector.backlog import Pending
from nomemory.server.message import Message
from nomemory.server.metadata_hashes import entry_hashes
from nomemory.server.search.semantic.protocol import VectorPoint


@dataclass(frozen=True, slots=True)
class DesiredPoints:
    """The desired points of a message: one for each text, or one for the caller's vector, or none.

    Attributes:
        item: the message in the backlog.
        message: the current version; None if the message is gone.
        sequence: the sequence of that version.
        is_new: whether the index has no points of the message yet.
        texts: the texts to embed.
        caller_vector: the vector that the caller stored with the message.
        stored: vectors of the texts that are already in the index. If there are any, `texts` is empty.
    """

    item: Pending
    message: Message | None = None
    sequence: int = 0
    is_new: bool = False
    texts: tuple[str, ...] = ()
    caller_vector: Vector | None = None
    stored: tuple[Vector, ...] = ()

    def build_points(self, vectors: Sequence[Vector]) -> list[VectorPoint]:
        """Return the points, given the vectors of the texts."""
        message = self.message
        if message is None:
            return []
        parts = self.stored or (vectors if self.caller_vector is None else [self.caller_vector])
        marks = entry_hashes(message.metadata.items())
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


def usable_caller_vector(vector: Vector | None, dimension: int) -> Vector | None:
    """Return a caller's vector normalized to length one; None if its dimension differs from that of the index."""
    try:
        return l2_normalize(vector, dimension) if vector else None
    except UnusableVectorError:
        return None
