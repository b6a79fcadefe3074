"""The form of a vector between processes and in the log, and scaling to length one."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack, unpack
from typing import Final

Vector = bytes
"""Little-endian float32 numbers, one after another."""

NUMBER: Final = "<f4"
"""One of them, as numpy calls it."""
NUMBER_BYTES: Final = 4


def vector_of(numbers: Sequence[float]) -> Vector:
    """Return numbers as a vector."""
    return pack(f"<{len(numbers)}f", *numbers)


def numbers_of(vector: Vector) -> list[float]:
    """Return the numbers of a vector."""
    return list(unpack(f"<{len(vector) // NUMBER_BYTES}f", vector))


class UnusableVectorError(ValueError):
    """Cosines with this vector mean nothing; the text says why, without its numbers."""


def l2_normalize(vector: Vector, dimension: int) -> Vector:
    """Scale a vector to length one.

    The length is taken in 64 bits, where no float32 overflows or vanishes.

    Raises:
        UnusableVectorError: it has not `dimension` numbers, or one that is not finite, or is zero.
    """
    import numpy as np  # noqa: PLC0415 - the engine's process has no use for it

    if len(vector) != dimension * NUMBER_BYTES:
        raise UnusableVectorError(f"must have {dimension} numbers")
    numbers = np.frombuffer(vector, dtype=NUMBER).astype(np.float64)
    length = float(np.linalg.norm(numbers))
    if not np.isfinite(length):
        raise UnusableVectorError("must be finite")
    if length == 0:
        raise UnusableVectorError("must not be zero")
    return (numbers / length).astype(NUMBER).tobytes()
