"""The form of a vector between processes and in the log."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack, unpack
from typing import Final

Vector = bytes
"""Little-endian float32 numbers, one after another."""

NUMBER_BYTES: Final = 4


def vector_of(numbers: Sequence[float]) -> Vector:
    """Return numbers as a vector."""
    return pack(f"<{len(numbers)}f", *numbers)


def numbers_of(vector: Vector) -> list[float]:
    """Return the numbers of a vector."""
    return list(unpack(f"<{len(vector) // NUMBER_BYTES}f", vector))
