"""Validate and normalize vectors before they are passed to an engine.

A vector that an engine rejects would remain in the engine's write-ahead log and be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nomemory.server.embedding.vector import UnusableVectorError, Vector, normalize_vector
from nomemory.server.faults import Violation, build_invalid_argument_fault
from nomemory.server.search.semantic.protocol import VectorPoint


def normalize_query(vector: Vector, dimension: int) -> Vector:
    """Return a query vector, normalized to length 1.

    Raises:
        Fault: INVALID_FIELD: the cosine is undefined for this vector.
    """
    try:
        return normalize_vector(vector, dimension)
    except UnusableVectorError as error:
        raise build_invalid_argument_fault([Violation("query_embedding.values", str(error))]) from None


def normalize_points(points: Sequence[VectorPoint], dimension: int) -> tuple[VectorPoint, ...]:
    """Return the points with vectors normalized to length 1.

    Raises:
        Fault: INVALID_FIELD with a violation for each point with an invalid vector.
    """
    usable, violations = [], []
    for number, point in enumerate(points):
        try:
            usable.append(replace(point, vector=normalize_vector(point.vector, dimension)))
        except UnusableVectorError as error:
            violations.append(Violation(f"points[{number}].vector", str(error)))
    if violations:
        raise build_invalid_argument_fault(violations)
    return tuple(usable)
