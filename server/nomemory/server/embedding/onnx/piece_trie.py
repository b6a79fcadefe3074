"""The tokenizer's pieces as a tree of letters in a file.

A dictionary of 250,000 pieces takes 40 MB in every process. The file is mapped: its pages are shared, and only those
that are read are in memory.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
