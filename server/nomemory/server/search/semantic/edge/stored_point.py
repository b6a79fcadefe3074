"""Reads and validates points that the engine returns."""

from __future__ import annotations

import math
from typing import Final, cast

import qdrant_edge as qdrant

from nomemory.server.search.semantic.points import SEQUENCE, TIME

_MAX_NORM_ERROR: Final = 1e-3


def sequence_of(record: qdrant.Record) -> int:
    """Return the sequence of the version that the point belongs to; -1 if the payload is damaged."""
    return int((record.payload or {}).get(SEQUENCE, -1))


def has_version(record: qdrant.Record) -> bool:
    """Return whether the payload has a valid time and sequence."""
    stored = record.payload or {}
    return isinstance(stored.get(TIME), int) and isinstance(stored.get(SEQUENCE), int)


def unit_vector(record: qdrant.Record, dimension: int) -> list[float] | None:
    """Return the vector if it has the right dimension and length 1, otherwise None."""
    vector = record.vector  # the engine builds a list at each access
    if not isinstance(vector, list) or len(vector) != dimension:
        return None
    numbers = cast("list[float]", vector)  # the collection has no other kind of vector
    norm = math.hypot(*numbers)
    return numbers if abs(norm * norm - 1.0) < _MAX_NORM_ERROR else None


def is_valid(record: qdrant.Record, dimension: int) -> bool:
    """Return whether payload and vector are valid."""
    return has_version(record) and unit_vector(record, dimension) is not None
