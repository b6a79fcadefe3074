"""Serialized vectors and L2 normalization."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack, unpack
from typing import Final

Vector = bytes
"""A vector as little-endian float32 bytes."""

NUMBER: Final = "<f4"
"""The numpy data type of an element."""
NUMBER_BYTES: Final = 4


def serialize_vector(numbers: Sequence[float]) -> Vector:
    """Serialize a vector."""
    return pack(f"<{len(numbers)}f", *numbers)


def deserialize_vector(vector: Vector) -> list[float]:
    """Deserialize a vector."""
    return list(unpack(f"<{len(vector) // NUMBER_BYTES}f", vector))


class UnusableVectorError(ValueError):
    """A vector cannot be used for cosine similarity."""


def normalize_vector(vector: Vector, dimension: int) -> Vector:
    """Scale a vector to length one.

    The norm is computed in float64, where float32 values neither overflow nor underflow.

    Raises:
        UnusableVectorError: the vector has a dimension other than `dimension`, contains a value that is not finite, or
            is zero.
    """
    import numpy as np  # noqa: PLC0415 - not needed in the vector index process

    if len(vector) != dimension * NUMBER_BYTES:
        raise UnusableVectorError(f"must have {dimension} dimensions, got {len(vector) // NUMBER_BYTES}")
    numbers = np.frombuffer(vector, dtype=NUMBER).astype(np.float64)
    length = float(np.linalg.norm(numbers))
    if not np.isfinite(length):
        raise UnusableVectorError("must be finite")
    if length == 0:
        raise UnusableVectorError("must not contain only zeros")
    return (numbers / length).astype(NUMBER).tobytes()
