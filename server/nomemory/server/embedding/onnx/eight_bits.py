"""Matrices of 8-bit numbers, and whether this processor multiplies them without overflow.

One with AVX2 but without VNNI adds up pairs of products in 16 bits, which are too few for numbers without a sign times
numbers with one. ONNX Runtime does it all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import onnxruntime

from nomemory.server.embedding.onnx import wire_format
from nomemory.server.embedding.onnx.wire_format import ElementType

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


_MOST: Final = 255
_COUNT: Final = 64
_COLUMNS: Final = 16


@cache
def overflows() -> bool:
    """Multiply the largest numbers there are, and return whether the product is wrong (2 ms)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(_model(), options, providers=["CPUExecutionProvider"])
    (product,) = session.run(None, {"left": np.full((1, _COUNT), _MOST, np.uint8)})
    return bool((product != _MOST * LARGEST * _COUNT).any())


def _model() -> bytes:
    right = np.full((_COUNT, _COLUMNS), LARGEST, np.int8)
    one = np.ones((), "<f4").tobytes()
    tensors = [
        wire_format.tensor("right", ElementType.INT8, right.shape, right.tobytes()),
        wire_format.tensor("scale", ElementType.FLOAT, [], one),
    ]
    product = wire_format.node(
        "MatMulIntegerToFloat", ["left", "right", "scale", "scale"], "product", wire_format.MICROSOFT, {}
    )
    left = wire_format.value("left", ElementType.UINT8, [1, _COUNT])
    output = wire_format.value("product", ElementType.FLOAT, [1, _COLUMNS])
    return wire_format.model([product], tensors, [left], output, wire_format.OPERATOR_SETS)
