"""A memory-mapped trie of tokenizer pieces.

A dictionary of 250,000 pieces would take 40 MB in every process. Processes share the pages of the memory-mapped file,
which are loaded on demand.

Nodes are stored in breadth-first order in four columns: the last character of the node's prefix, the index of the first
child, the id of the piece that ends at the node, and the score of this piece. The children of a node are consecutive
and sorted.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

_HEADER: Final = struct.Struct("<Qd")
"""The number of nodes, and the minimum score of all pieces."""
_NO_PIECE: Final = -1
_ELEMENT_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the tokenizer's vocabulary. The score of a piece is the logarithm of its probability."""

    text: str
    token_id: int
    score: float


def build_trie(pieces: Sequence[Piece]) -> bytes:
    """Build the trie of pieces, and return the content of the trie file. Building the trie takes 1 s.

    Args:
        pieces: the pieces of the vocabulary, each with a non-empty text. If two pieces have the same text, the last one
            counts.
    """
    by_text = {piece.text: piece for piece in pieces}
    ordered = [by_text[text] for text in sorted(by_text)]
    lengths = np.array([len(piece.text) for piece in ordered])
    characters = _build_code_point_matrix([piece.text for piece in ordered], int(lengths.max()))
    is_node = _mark_first_with_prefix(characters, lengths)
    length, row = np.nonzero(is_node)
    node_of_prefix = np.cumsum(is_node).reshape(is_node.shape) - 1
    children = np.bincount(node_of_prefix[length[1:] - 1, row[1:]], minlength=len(row))
    ends_piece = lengths[row] == length
    columns = (
        np.where(length, characters[row, length - 1], 0).astype("<u4"),
        np.cumsum(np.concatenate([[1], children])).astype("<u4"),
        np.where(ends_piece, np.array([piece.token_id for piece in ordered])[row], _NO_PIECE).astype("<i4"),
        np.where(ends_piece, np.array([piece.score for piece in ordered])[row], 0).astype("<f4"),
    )
    minimum_score = min(piece.score for piece in pieces)
    return b"".join([_HEADER.pack(len(row), minimum_score), *(column.tobytes() for column in columns)])


def _build_code_point_matrix(texts: Sequence[str], longest: int) -> npt.NDArray[np.uint32]:
    """Return the code points of texts as an array of shape (texts, `longest`), padded with 0."""
    padded = "".join(text.ljust(longest, "\0") for text in texts)
    return np.frombuffer(padded.encode("utf-32-le"), "<u4").reshape(len(texts), longest)


def _mark_first_with_prefix(
    characters: npt.NDArray[np.uint32], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return a mask of shape (prefix lengths, sorted texts) that marks the first text with each distinct prefix."""
    differs = np.ones(characters.shape, np.bool_)
    differs[1:] = np.logical_or.accumulate(characters[1:] != characters[:-1], axis=1)
    prefix_lengths = np.arange(characters.shape[1] + 1)[:, np.newaxis]
    is_root = np.arange(len(characters)) == 0
    return np.asarray(np.vstack([is_root, differs.T]) & (prefix_lengths <= lengths))


class PieceTrie:
    """Finds the pieces that are prefixes of a text.

    Args:
        content: the content of the trie file.

    Attributes:
        minimum_score: the lowest score of all pieces in the trie.
    """

    def __init__(self, content: memoryview) -> None:
        nodes, self.minimum_score = _HEADER.unpack_from(content)
        size = nodes * _ELEMENT_BYTES
        columns = content[_HEADER.size :]
        self._characters = columns[:size].cast("I")
        self._first_children = columns[size : 2 * size + _ELEMENT_BYTES].cast("I")
        self._token_ids = columns[2 * size + _ELEMENT_BYTES : 3 * size + _ELEMENT_BYTES].cast("i")
        self._scores = columns[3 * size + _ELEMENT_BYTES :].cast("f")

    def find_prefixes(self, code_points: Sequence[int], start: int) -> list[tuple[int, int, float]]:
        """Return the pieces that match the text at `start`, shortest first, as (end offset, token id, score)."""
        matches = []
        characters, first_children = self._characters, self._first_children
        node = 0
        for end in range(start, len(code_points)):
            last = first_children[node + 1]
            node = bisect_left(characters, code_points[end], first_children[node], last)
            if node == last or characters[node] != code_points[end]:
                break
            if self._token_ids[node] != _NO_PIECE:
                matches.append((end + 1, self._token_ids[node], self._scores[node]))
        return matches
