"""How far a vector index has come."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.log.position import FeedPosition


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
