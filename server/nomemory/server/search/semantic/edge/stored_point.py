"""Read points that the engine returns, and recognise damaged ones."""

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
    """Return whether the payload has the time and the sequence, which every hit needs."""
    stored = record.payload or {}
    return isinstance(stored.get(TIME), int) and isinstance(stored.get(SEQUENCE), int)


def unit_vector(record: qdrant.Record, dimension: int) -> list[float] | None:
    """Return the vector if it has the right dimension and length one, otherwise None."""
    vector = record.vector  # the engine builds a list at each access
    if not isinstance(vector, list) or len(vector) != dimension:
        return None
    numbers = cast("list[float]", vector)  # a vector of the right dimension has no other form
    norm = math.hypot(*numbers)
    return numbers if abs(norm * norm - 1.0) < _MAX_NORM_ERROR else None


def is_sound(record: qdrant.Record, dimension: int) -> bool:
    """Return whether the point can be found and used."""
    return has_version(record) and unit_vector(record, dimension) is not None
