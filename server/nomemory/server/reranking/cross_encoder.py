"""A cross-encoder on ONNX Runtime: `model.onnx` and `tokenizer.json` in a directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"

_TOKENS_MAX = 512
"""The window of the usual models. A longer pair is cut, the longer of the two first."""
_ERRORS_ONLY = 3
_CLASSES_MAX = 2


class CrossEncoder:
    """Scores pairs of a question and a text.

    Args:
        directory: where the model and its tokenizer are. The model takes `input_ids`, and `attention_mask` and
            `token_type_ids` if it likes; it returns one logit for a pair, or two of which the second says yes.
        threads: how many threads it may use.
    """

    def __init__(self, directory: Path, threads: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(directory / TOKENIZER))
        if self._tokenizer.truncation is None:
            self._tokenizer.enable_truncation(_TOKENS_MAX)
        if self._tokenizer.padding is None:
            self._tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        self._session = onnxruntime.InferenceSession(
            str(directory / MODEL), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {one.name for one in self._session.get_inputs()}

    def logits(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a logit for each text.

        Raises:
            ValueError: the model is no reranker.
        """
        pairs = self._tokenizer.encode_batch([(question, text) for text in texts])
        known = {
            "input_ids": [pair.ids for pair in pairs],
            "attention_mask": [pair.attention_mask for pair in pairs],
            "token_type_ids": [pair.type_ids for pair in pairs],
        }
        wanted = {name: np.array(values, np.int64) for name, values in known.items() if name in self._inputs}
        (answers, *_) = self._session.run(None, wanted)
        return _of_yes(np.asarray(answers, np.float64).reshape(len(texts), -1))


def _of_yes(answers: npt.NDArray[np.float64]) -> list[float]:
    """Return one logit for each row: of two classes, how much the second is likelier than the first."""
    if answers.shape[1] > _CLASSES_MAX:
        raise ValueError(f"it gives {answers.shape[1]} numbers for a pair, and a reranker one or two")
    of_yes = answers[:, 0] if answers.shape[1] == 1 else answers[:, 1] - answers[:, 0]
    return [float(one) for one in of_yes]
