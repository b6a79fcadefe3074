"""A custom model: a directory with `model.onnx` and `tokenizer.json`.

`python -m … DIRECTORY QUERY_PREFIX DOCUMENT_PREFIX POOLING` validates a model. The server runs the validation in a
separate process, because a broken model may crash ONNX Runtime.
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

from nomemory.server.embedding.local_model import LocalModelError, ModelResources, TextKind
from nomemory.server.embedding.onnx.parallel_batcher import ParallelBatcher
from nomemory.server.embedding.onnx.session import open_session
from nomemory.server.embedding.vector import NUMBER_BYTES, UnusableVectorError, Vector, normalize_vector
from nomemory.server.runtime.secure_files import compute_file_digest

MODEL_FILE: Final = "model.onnx"
TOKENIZER_FILE: Final = "tokenizer.json"

_SENTENCE_DIMENSIONS: Final = 2
_BATCH_TOKENS: Final = 256
_TOKENS_MAX: Final = 512
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_FLOAT_TYPES: Final = frozenset({"tensor(float)", "tensor(float16)", "tensor(double)"})
_Floats = npt.NDArray[np.float32]


class Pooling(StrEnum):
    """The method that combines the vectors of tokens into the vector of a text."""

    MEAN = "mean"
    FIRST = "first"
    LAST = "last"


class DirectoryModel:
    """Embeds texts with a custom model from a directory.

    Args:
        arguments: the path of the directory, the query prefix, the document prefix, and the pooling.

    Raises:
        LocalModelError: the inputs or outputs of the model are not those of a text embedder.
    """

    def __init__(self, arguments: Sequence[str], kind: TextKind, resources: ModelResources) -> None:
        path, query_prefix, document_prefix, pooling = arguments
        self._prefix = query_prefix if kind is TextKind.QUERY else document_prefix
        self._pooling = Pooling(pooling)
        self._tokenizer = _load_tokenizer(Path(path, TOKENIZER_FILE))
        self._session = open_session(Path(path, MODEL_FILE), resources)
        self._batcher = ParallelBatcher(resources.concurrent_batches)
        self._inputs = {node.name for node in self._session.get_inputs()}
        self._output = _select_output(self._session.get_outputs())
        _check_inputs(self._inputs)

    @property
    def largest_token(self) -> int:
        """The largest token id of the tokenizer, without added special tokens."""
        return max(self._tokenizer.get_vocab(with_added_tokens=False).values(), default=0)

    def encode(self, texts: Sequence[str]) -> list[Vector]:
        """Return the unnormalized vectors of texts.

        A text that exceeds the maximum length of the model is truncated.
        """
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch([self._prefix + text for text in texts])]
        vectors = self._batcher.map(tokens, list(map(len, tokens)), _BATCH_TOKENS, self.embed_tokens)
        return [np.asarray(vector, "<f4").tobytes() for vector in vectors]

    def embed_tokens(self, tokens: Sequence[Sequence[int]]) -> _Floats:
        """Return the vectors of token sequences as an array of shape (texts, dimension)."""
        lengths = np.array([len(token_ids) for token_ids in tokens])
        padded = np.zeros((len(tokens), max(1, lengths.max())), np.int64)
        for row, token_ids in zip(padded, tokens, strict=True):
            row[: len(token_ids)] = token_ids
        mask = (np.arange(padded.shape[1]) < lengths[:, np.newaxis]).astype(np.int64)
        inputs = dict(zip(_INPUTS, (padded, mask, np.zeros_like(padded)), strict=True))
        (output,) = self._session.run([self._output], {name: inputs[name] for name in self._inputs & inputs.keys()})
        states = np.asarray(output, "<f4")
        if states.ndim == _SENTENCE_DIMENSIONS:
            return states
        if states.shape[:-1] != padded.shape:
            raise LocalModelError(
                f"{MODEL_FILE}: unexpected output shape {states.shape}, expected a vector per text or per token"
            )
        return _pool_states(states, mask, self._pooling)


def _select_output(outputs: Sequence[Any]) -> str:
    """Return the name of the output with the vectors, which is `sentence_embedding` or the first output."""
    sentence_outputs = (node for node in outputs if node.name == "sentence_embedding")
    output = next(sentence_outputs, outputs[0])
    if output.type not in _FLOAT_TYPES:
        raise LocalModelError(f"{MODEL_FILE}: output {output.name} has type {output.type}, expected a float tensor")
    return str(output.name)


def _check_inputs(inputs: set[str]) -> None:
    unknown = sorted(inputs.difference(_INPUTS))
    if unknown or _INPUTS[0] not in inputs:
        unsupported = ", ".join(unknown or sorted(inputs))
        raise LocalModelError(f"{MODEL_FILE}: unsupported inputs: {unsupported}; supported: {', '.join(_INPUTS)}")


def _pool_states(states: _Floats, mask: npt.NDArray[np.int64], pooling: Pooling) -> _Floats:
    """Pool the vectors of each text's tokens into the vector of the text."""
    if pooling is Pooling.MEAN:
        weights = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        return np.asarray(np.einsum("btw,bt->bw", states, weights), "<f4")
    positions = 0 if pooling is Pooling.FIRST else np.maximum(mask.sum(axis=1) - 1, 0)
    return np.asarray(states[np.arange(len(states)), positions], "<f4")


def _load_tokenizer(path: Path) -> Any:  # noqa: ANN401 - a type of an optional package
    from tokenizers import Tokenizer  # noqa: PLC0415 - an optional package

    tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    tokenizer.no_padding()
    tokenizer.enable_truncation((tokenizer.truncation or {}).get("max_length", _TOKENS_MAX))
    return tokenizer


_DIMENSION_MIN: Final = 2


def main(arguments: list[str]) -> None:
    """Print the digest and the dimension of a model as a line of JSON.

    The digest covers all files of the model and the arguments.
    """
    sys.excepthook = _print_error
    try:
        dimension = _measure_dimension(DirectoryModel(arguments, TextKind.DOCUMENT, ModelResources()))
    except LocalModelError as error:
        sys.exit(str(error))
    except UnusableVectorError as error:
        sys.exit(f"the model returns unusable vectors: a vector {error}")
    digest = hashlib.sha256("\0".join(arguments[1:]).encode())
    for path in sorted(Path(arguments[0]).iterdir()):
        if path.is_file():
            digest.update(bytes.fromhex(compute_file_digest(path)))
    sys.stdout.write(json.dumps({"digest": digest.hexdigest(), "dimension": dimension}) + "\n")


def _measure_dimension(model: DirectoryModel) -> int:
    """Embed a probe text and the smallest and largest token ids, and return the dimension of the vectors."""
    (vector,) = model.encode(["tea"])
    dimension = len(vector) // NUMBER_BYTES
    normalize_vector(vector, dimension)
    if dimension < _DIMENSION_MIN:
        raise LocalModelError("the model returns one number per text: it is a reranker, not an embedder")
    model.embed_tokens([[0, model.largest_token]])  # fails if the tokenizer belongs to another model
    return dimension


def _print_error(_kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
    """Print an uncaught exception in one line.

    An exception hook is necessary because the exceptions of `onnxruntime` and `tokenizers` have no common base class.
    """
    sys.stderr.write(f"the model or its tokenizer cannot be used: {' '.join(str(error).split())}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
