"""Matrices of 8-bit numbers, and whether this processor multiplies them without overflow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LARGEST = 127
"""Of a number with a sign."""
MIDDLE = 128
"""What is added to a number with a sign to store it without."""


@dataclass(frozen=True, slots=True)
class EightBits:
    """A matrix: `numbers` times `scales`.

    Attributes:
        numbers: rows × columns, from -127 to 127.
        scales: of each column.
    """

    numbers: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float32]


def rounded(matrix: npt.NDArray[np.float32]) -> EightBits:
    """Round a matrix; each column gets a scale of its own."""
    scales = (np.abs(matrix).max(axis=0) / LARGEST).astype("<f4")
    return EightBits(np.rint(matrix / scales).astype(np.int8), scales)
