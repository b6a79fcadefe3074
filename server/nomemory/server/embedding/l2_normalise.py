"""Vectors of length one: the only kind that an engine or a caller of an embedder is given."""

from __future__ import annotations

import numpy as np

from nomemory.server.embedding.vector import Vector

NUMBER = np.dtype("<f4")
"""Little-endian float32."""


class UnusableVectorError(ValueError):
    """Cosines with this vector mean nothing; the text says why, without its numbers."""


def l2_normalise(vector: Vector, dimension: int) -> Vector:
    """Scale a vector to length one.

    The length is taken in 64 bits, where no float32 overflows or vanishes.

    Raises:
        UnusableVectorError: it has not `dimension` numbers, or one that is not finite, or is zero.
    """
    if len(vector) != dimension * NUMBER.itemsize:
        raise UnusableVectorError(f"must have {dimension} numbers")
    numbers = np.frombuffer(vector, dtype=NUMBER).astype(np.float64)
    length = float(np.linalg.norm(numbers))
    if not np.isfinite(length):
        raise UnusableVectorError("must be finite")
    if length == 0:
        raise UnusableVectorError("must not be zero")
    return (numbers / length).astype(NUMBER).tobytes()
