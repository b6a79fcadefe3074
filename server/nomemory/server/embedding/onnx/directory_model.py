"""A model of the operator's: a directory with `model.onnx` and `tokenizer.json`.

As a program it says what the model is: `python -m … DIRECTORY QUERY_PREFIX DOCUMENT_PREFIX POOLING`. The server need
not hold the model for it, and what is broken may break it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nomemory.server.embedding.local_model import Capacity, LocalModelError
from nomemory.server.embedding.onnx.parallel_batcher import ParallelBatcher
from nomemory.server.embedding.onnx.session import open_session
from nomemory.server.embedding.vector import NUMBER_BYTES, UnusableVectorError, Vector, l2_normalize
from nomemory.server.runtime.secure_files import digest_of

MODEL_FILE: Final = "model.onnx"
TOKENIZER_FILE: Final = "tokenizer.json"

_SENTENCE_DIMENSIONS: Final = 2
_BATCH_TOKENS: Final = 256
_TOKENS_MAX: Final = 512
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_OF_FLOATS: Final = frozenset({"tensor(float)", "tensor(float16)", "tensor(double)"})
_Floats = npt.NDArray[np.float32]


class Pooling(StrEnum):
    """Which tokens make the vector of a text: all, or one."""

    MEAN = "mean"
    FIRST = "first"
    LAST = "last"


class DirectoryModel:
    """Embeds texts with the model of a directory.

    Args:
        arguments: its path; what stands before a query, and before a document; which tokens make the vector, unless the
            model gives one vector for the whole text (`Pooling`).
        capacity: how much it may use.

    Raises:
        LocalModelError: the model takes or gives something else than an embedder.
    """

    def __init__(self, arguments: Sequence[str], capacity: Capacity) -> None:
        path, self._query_prefix, self._document_prefix, pooling = arguments
        self._pooling = Pooling(pooling)
        self._tokenizer = _tokenizer(Path(path, TOKENIZER_FILE))
        self._session = open_session(Path(path, MODEL_FILE), capacity)
        self._batcher = ParallelBatcher(capacity.concurrent_batches)
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._output = _output(self._session.get_outputs())
        _refuse_inputs(self._inputs)

    @property
    def largest_token(self) -> int:
        """The largest number that the tokenizer gives a piece of a text, those of marks left out."""
        return max(self._tokenizer.get_vocab(with_added_tokens=False).values(), default=0)

    def encode(self, texts: Sequence[str], *, is_query: bool) -> list[Vector]:
        """Embed texts; the vectors' lengths are not one yet. What a text has beyond the model's length is left out."""
        prefix = self._query_prefix if is_query else self._document_prefix
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch([prefix + text for text in texts])]
        found = self._batcher.map(tokens, list(map(len, tokens)), _BATCH_TOKENS, self.embed_tokens)
        return [np.asarray(vector, "<f4").tobytes() for vector in found]

    def embed_tokens(self, tokens: Sequence[Sequence[int]]) -> _Floats:
        """Return a vector for each list of tokens."""
        lengths = np.array([len(each) for each in tokens])
        numbers = np.zeros((len(tokens), max(1, lengths.max())), np.int64)
        for row, each in zip(numbers, tokens, strict=True):
            row[: len(each)] = each
        mask = (np.arange(numbers.shape[1]) < lengths[:, np.newaxis]).astype(np.int64)
        inputs = dict(zip(_INPUTS, (numbers, mask, np.zeros_like(numbers)), strict=True))
        (found,) = self._session.run([self._output], {name: inputs[name] for name in self._inputs & inputs.keys()})
        states = np.asarray(found, "<f4")
        if states.ndim == _SENTENCE_DIMENSIONS:
            return states
        if states.shape[:-1] != numbers.shape:
            raise LocalModelError(f"{MODEL_FILE} gives neither a vector for a text nor one for each of its tokens")
        return _pooled(states, mask, self._pooling)


def _output(outputs: Sequence[Any]) -> str:
    """Choose the output with the vectors."""
    of_text = (each for each in outputs if each.name == "sentence_embedding")
    chosen = next(of_text, outputs[0])
    if chosen.type not in _OF_FLOATS:
        raise LocalModelError(f"{MODEL_FILE} gives no vectors: its output {chosen.name} is a {chosen.type}")
    return str(chosen.name)


def _refuse_inputs(inputs: set[str]) -> None:
    unknown = sorted(inputs.difference(_INPUTS))
    if unknown or _INPUTS[0] not in inputs:
        wanted = ", ".join(unknown or sorted(inputs))
        raise LocalModelError(f"{MODEL_FILE} is no embedder of texts: it takes {wanted}, and not just {_INPUTS[0]}")


def _pooled(states: _Floats, mask: npt.NDArray[np.int64], pooling: Pooling) -> _Floats:
    """Make one vector of those of the tokens."""
    if pooling is Pooling.MEAN:
        weights = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        return np.asarray(np.einsum("btw,bt->bw", states, weights), "<f4")
    places = 0 if pooling is Pooling.FIRST else np.maximum(mask.sum(axis=1) - 1, 0)
    return np.asarray(states[np.arange(len(states)), places], "<f4")


def _tokenizer(path: Path) -> Any:  # noqa: ANN401 - of a package that may be missing
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

    tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    tokenizer.no_padding()
    tokenizer.enable_truncation((tokenizer.truncation or {}).get("max_length", _TOKENS_MAX))
    return tokenizer


_DIMENSION_MIN: Final = 2


def main(arguments: list[str]) -> None:
    """Print a line of JSON: the digest of what decides the vectors, and how many numbers they have."""
    sys.excepthook = _say
    try:
        dimension = _dimension(DirectoryModel(arguments, Capacity()))
    except LocalModelError as error:
        sys.exit(str(error))
    except UnusableVectorError as error:
        sys.exit(f"its vectors cannot be used: each {error}")
    digest = hashlib.sha256("\0".join(arguments[1:]).encode())
    for path in sorted(Path(arguments[0]).iterdir()):
        if path.is_file():
            digest.update(bytes.fromhex(digest_of(path)))
    sys.stdout.write(json.dumps({"digest": digest.hexdigest(), "dimension": dimension}) + "\n")


def _dimension(model: DirectoryModel) -> int:
    """Embed a text and each end of the vocabulary; return how many numbers a vector has."""
    (vector,) = model.encode(["tea"], is_query=False)
    dimension = len(vector) // NUMBER_BYTES
    l2_normalize(vector, dimension)
    if dimension < _DIMENSION_MIN:
        raise LocalModelError("it gives a text one number, as a reranker does, and no vector")
    model.embed_tokens([[0, model.largest_token]])  # fails where the tokenizer is of another model
    return dimension


def _say(_kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
    """Say in a line what one of the packages raised: they have no class in common."""
    sys.stderr.write(f"the model or its tokenizer cannot be used: {' '.join(str(error).split())}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
