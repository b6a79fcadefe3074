"""Checks vectors before an engine gets them: a rejected one would stay in its write-ahead log and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nomemory.server.embedding.vector import UnusableVectorError, Vector, l2_normalise
from nomemory.server.faults import Violation, invalid
from nomemory.server.vector.protocol import VectorPoint


def usable_query(vector: Vector, dimension: int) -> Vector:
    """Return a query's vector, of length one.

    Raises:
        Fault: INVALID_FIELD, if no cosine can be taken with it.
    """
    try:
        return l2_normalise(vector, dimension)
    except UnusableVectorError as error:
        raise invalid([Violation("query_embedding.values", str(error))]) from None


def usable_points(points: Sequence[VectorPoint], dimension: int) -> tuple[VectorPoint, ...]:
    """Return points with vectors of length one: all of them or none.

    Raises:
        Fault: INVALID_FIELD, naming each point whose vector cannot be used by its place.
    """
    usable, violations = [], []
    for place, point in enumerate(points):
        try:
            usable.append(replace(point, vector=l2_normalise(point.vector, dimension)))
        except UnusableVectorError as error:
            violations.append(Violation(f"points[{place}].vector", str(error)))
    if violations:
        raise invalid(violations)
    return tuple(usable)
