"""A worker that answers with what it is asked: `python -m … DESCRIPTOR`."""

from __future__ import annotations

import sys

from nomemory.server.processes.worker_pipe import WorkerPipe


def main(descriptor: int) -> None:
    """Answer until nobody asks."""
    pipe = WorkerPipe(descriptor)
    pipe.ready()
    try:
        while True:
            call = pipe.receive_one()
            pipe.reply(call.call_id, call.request)
    except EOFError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
