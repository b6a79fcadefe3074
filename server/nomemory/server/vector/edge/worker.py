"""The process of the embedded engine: `python -m … DESCRIPTOR DIRECTORY DIMENSION MEMORY_MAX PACK_POINTS`."""

from __future__ import annotations

import resource
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from nomemory.server.processes import ipc_protocol
from nomemory.server.processes.ipc_worker import WorkerPipe
from nomemory.server.vector.edge.calls import Call, NearestPoints
from nomemory.server.vector.edge.files import opening
from nomemory.server.vector.edge.shard import Shard


class EdgeWorker:
    """Answers calls until the pipe is closed.

    All the searches that have arrived are answered together and overtake writes; writes keep their order.
    """

    def __init__(self, pipe: WorkerPipe, shard: Shard) -> None:
        self._pipe = pipe
        self._shard = shard
        self._others: deque[ipc_protocol.Call] = deque()

    def run(self) -> None:
        """Work until the other end is gone (EOFError, or ConnectionError while answering)."""
        while True:
            calls = self._pipe.receive(wait=not self._others)
            searches = [call for call in calls if isinstance(call.request, NearestPoints)]
            self._others += (call for call in calls if not isinstance(call.request, NearestPoints))
            if searches:
                self._answer(searches, partial(self._shard.search, [call.request for call in searches]))
            if self._others:
                call = self._others.popleft()
                self._answer([call], partial(_performed, self._shard, call.request))

    def _answer(self, calls: list[ipc_protocol.Call], perform: Callable[[], Sequence[object]]) -> None:
        try:
            values = perform()
        except Exception as error:  # noqa: BLE001 - the engine raises bare Exceptions, it has no type of its own
            for call in calls:
                self._pipe.fail(call.call_id, type(error).__name__)
            return
        for call, value in zip(calls, values, strict=True):
            self._pipe.reply(call.call_id, value)


def _performed(shard: Shard, call: Call) -> list[object]:
    return [getattr(shard, call.method)(*call.arguments, **call.named)]


def main(descriptor: int, directory: Path, dimension: int, memory_max_bytes: int, pack_points: int) -> None:
    """Open the shard, say so, and work. A damaged file must not make the engine write larger files than its memory."""
    pipe = WorkerPipe(descriptor)
    if memory_max_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (memory_max_bytes, memory_max_bytes))
    try:
        with opening(directory):
            shard = Shard(directory, dimension, pack_points)
    except Exception as error:  # noqa: BLE001 - as above; the text names the directory and what is wrong with it
        pipe.not_ready(str(error))
        return
    try:
        pipe.ready()
        EdgeWorker(pipe, shard).run()
    except (EOFError, ConnectionError):
        shard.close()


if __name__ == "__main__":
    descriptor_, directory_, *numbers = sys.argv[1:]
    main(int(descriptor_), Path(directory_), *map(int, numbers))
