"""The process that holds the reranker: `python -m … DESCRIPTOR MODEL THREADS`.

A request is `(question, texts)`, and its answer a number for each text, 0 to 1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

from nomemory.server.embedding.vector import readable
from nomemory.server.processes.worker_pipe import WorkerPipe

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


Logits = Callable[[str, Sequence[str]], Sequence[float]]


def _loaded(model: str, threads: int) -> Logits:
    """Load a directory's cross-encoder, or the one that fastembed knows by that name."""
    if Path(model).is_dir():
        from nomemory.server.reranking.worker import CrossEncoder  # noqa: PLC0415 - one of two packages

        encoder = CrossEncoder(Path(model), threads)
        encoder.logits("tea?", ["tea", "coffee"])  # what is no reranker is said now, and not at each question
        return encoder.logits
    from fastembed.rerank.cross_encoder import TextCrossEncoder  # noqa: PLC0415 - as above

    named = TextCrossEncoder(model_name=model, threads=threads)
    return lambda question, texts: [float(logit) for logit in named.rerank(question, list(texts))]


def _serve(pipe: WorkerPipe, logits: Logits) -> None:
    while True:
        call = pipe.receive_one()
        question, texts = call.request
        try:
            found = logits(readable(question), [readable(text) for text in texts])
        except Exception as error:  # noqa: BLE001 - the engines raise errors of many kinds
            pipe.fail(call.call_id, type(error).__name__)
            continue
        pipe.reply(call.call_id, [_probability(logit) for logit in found])


def _probability(logit: float) -> float:
    """Return a logit as a number from 0 to 1; what is no number counts nothing."""
    return 0.0 if math.isnan(logit) else (1 + math.tanh(logit / 2)) / 2


def main(descriptor: int, model: str, threads: int) -> None:
    """Load the model, report that it is ready, and answer."""
    pipe = WorkerPipe(descriptor)
    try:
        try:
            logits = _loaded(model, threads)
        except Exception as error:  # noqa: BLE001 - as above; the text is of the model, and nobody has asked yet
            pipe.not_ready(f"{type(error).__name__}: {error}")
            return
        pipe.ready()
        _serve(pipe, logits)
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
