"""Read and validate the points that the engine returns."""

from __future__ import annotations

import math
from typing import Final, cast

import qdrant_edge as qdrant

from nomemory.server.search.semantic.points import SEQUENCE, TIME

_MAX_NORM_ERROR: Final = 1e-3


def read_sequence(record: qdrant.Record) -> int:
    """Return the sequence number of the version to which a point belongs; -1 if the payload is damaged."""
    return int((record.payload or {}).get(SEQUENCE, -1))


def has_valid_version(record: qdrant.Record) -> bool:
    """Return whether the payload of a point has a valid time and sequence number."""
    stored = record.payload or {}
    return isinstance(stored.get(TIME), int) and isinstance(stored.get(SEQUENCE), int)


def read_unit_vector(record: qdrant.Record, dimension: int) -> list[float] | None:
    """Return the vector of a point; None if its dimension is wrong or its length is not 1."""
    vector = record.vector  # the engine builds a list at each access
    if not isinstance(vector, list) or len(vector) != dimension:
        return None
    numbers = cast("list[float]", vector)  # the collection has no other kind of vector
    norm = math.hypot(*numbers)
    return numbers if abs(norm * norm - 1.0) < _MAX_NORM_ERROR else None


def is_valid_point(record: qdrant.Record, dimension: int) -> bool:
    """Return whether the payload and the vector of a point are valid."""
    return has_valid_version(record) and read_unit_vector(record, dimension) is not None
