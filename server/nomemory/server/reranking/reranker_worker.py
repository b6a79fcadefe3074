"""The process that holds the reranker: `python -m … DESCRIPTOR MODEL THREADS`.

A request is `(question, texts)`, and its answer a number for each text, 0 to 1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from nomemory.server.embedding.clean_text import readable
from nomemory.server.processes.worker_pipe import WorkerPipe

Logits = Callable[[str, Sequence[str]], Sequence[float]]


def _loaded(model: str, threads: int) -> Logits:
    """Load a directory's cross-encoder, or the one that fastembed knows by that name."""
    if Path(model).is_dir():
        from nomemory.server.reranking.cross_encoder import CrossEncoder  # noqa: PLC0415 - one of two packages

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
