"""The worker process of the embedded engine: `python -m … DESCRIPTOR DIRECTORY DIMENSION MAX_MEMORY_BYTES`."""

from __future__ import annotations

import resource
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from nomemory.server.runtime.processes.ipc_protocol import Call
from nomemory.server.runtime.processes.ipc_worker import WorkerPipe
from nomemory.server.search.semantic.edge.messages import NearestQuery, ShardCall
from nomemory.server.search.semantic.edge.open_attempts import count_attempt
from nomemory.server.search.semantic.edge.shard import Shard
from nomemory.server.search.semantic.edge.shard_directory import ShardDirectory


class EdgeWorker:
    """Handles requests until the pipe is closed.

    Searches that have been received run together, before any other waiting call. The other calls run in the order in
    which they were received.
    """

    def __init__(self, pipe: WorkerPipe, shard: Shard) -> None:
        self._pipe = pipe
        self._shard = shard
        self._waiting: deque[Call] = deque()

    def handle_requests(self) -> None:
        """Handle requests until the server closes the pipe, which raises EOFError or ConnectionError."""
        while True:
            calls = self._pipe.receive_calls(wait=not self._waiting)
            searches = [call for call in calls if isinstance(call.request, NearestQuery)]
            self._waiting += (call for call in calls if not isinstance(call.request, NearestQuery))
            if searches:
                self._reply(searches, partial(self._shard.search, [call.request for call in searches]))
            if self._waiting:
                call = self._waiting.popleft()
                self._reply([call], partial(self._handle_call, call.request))

    def _handle_call(self, call: ShardCall) -> Sequence[object]:
        return [getattr(self._shard, call.method)(*call.arguments, **call.keywords)]

    def _reply(self, calls: list[Call], compute: Callable[[], Sequence[object]]) -> None:
        try:
            answers = compute()
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            for call in calls:
                self._pipe.reply_error(call.call_id, type(error).__name__)
            return
        for call, answer in zip(calls, answers, strict=True):
            self._pipe.reply(call.call_id, answer)


def main(descriptor: int, directory: Path, dimension: int, max_memory_bytes: int) -> None:
    """Open the shard, report readiness, and handle requests.

    The memory limit also limits the size of files, because a damaged file can make the engine write endlessly.
    """
    pipe = WorkerPipe(descriptor)
    if max_memory_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_memory_bytes, max_memory_bytes))
    try:
        ShardDirectory(directory).lock()
        with count_attempt(directory):
            shard = Shard(directory, dimension)
    except Exception as error:  # noqa: BLE001 - as above; the text names the directory and the cause
        pipe.report_startup_error(str(error))
        return
    try:
        pipe.report_ready()
        EdgeWorker(pipe, shard).handle_requests()
    except (EOFError, ConnectionError):
        shard.close()


if __name__ == "__main__":
    descriptor_, directory_, *numbers = sys.argv[1:]
    main(int(descriptor_), Path(directory_), *map(int, numbers))
