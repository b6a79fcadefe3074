"""When the embedded engine packs the new points of a shard."""

from __future__ import annotations

import qdrant_edge as qdrant

_PACKED_AT_ONCE = 4
"""So many times the points of a segment are packed in one go, at most."""


class Packing:
    """Has an engine put new points into a segment of their own, those of a user beside each other, by so many.

    A segment that is packed takes less memory and is searched in less time. The engine answers nothing meanwhile:
    packing 20,000 points takes it half a second. Points that are not packed at the start are packed with the next ones,
    unless there are too many: then they are when they are copied.

    Args:
        engine: whose.
        points: so many.
    """

    def __init__(self, engine: qdrant.EdgeShard, points: int) -> None:
        info = engine.info()
        self._engine = engine
        self._points = points
        self._loose = info.points_count - info.indexed_vectors_count
        self._is_possible = self._loose <= _PACKED_AT_ONCE * points

    def note(self, points: int) -> None:
        """Take note of new points."""
        self._loose += points

    def pack(self) -> None:
        """Pack the points that came since the last time, if there are enough of them."""
        if self._is_possible and self._loose >= self._points:
            self._engine.optimize()
            self._loose = 0
