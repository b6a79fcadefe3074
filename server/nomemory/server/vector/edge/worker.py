"""The process of the embedded engine: `python -m … DESCRIPTOR DIRECTORY DIMENSION MEMORY_MAX FREE_MIN PACK_POINTS`."""

from __future__ import annotations

import resource
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from nomemory.server.processes.frames import ReceivedCall
from nomemory.server.processes.worker_pipe import WorkerPipe
from nomemory.server.vector.edge.calls import (
    CopyLiving,
    CopyRefused,
    Count,
    FirstVectors,
    Flush,
    GetUsers,
    GetVectors,
    NearestPoints,
    ReadPoints,
    ReadWhole,
    Remove,
    RemoveVersions,
    StoreWhole,
    Upsert,
)
from nomemory.server.vector.edge.files import CopyLimits, opening
from nomemory.server.vector.edge.shard import Shard
from nomemory.server.vector.protocol import NoRoomError


class EdgeWorker:
    """Answers calls until the pipe is closed.

    All the searches that have arrived are answered together and overtake writes; writes keep their order.
    """

    def __init__(self, pipe: WorkerPipe, shard: Shard) -> None:
        self._pipe = pipe
        self._shard = shard
        self._others: deque[ReceivedCall] = deque()

    def run(self) -> None:
        """Work until the other end is gone (EOFError, or ConnectionError while answering)."""
        while True:
            calls = self._pipe.receive(wait=not self._others)
            self._others += (call for call in calls if not isinstance(call.request, NearestPoints))
            self._answer_searches([call for call in calls if isinstance(call.request, NearestPoints)])
            if self._others:
                self._answer_other(self._others.popleft())

    def _answer_searches(self, calls: list[ReceivedCall]) -> None:
        if calls:
            self._answer(calls, lambda: self._shard.search([call.request for call in calls]))

    def _answer_other(self, call: ReceivedCall) -> None:
        self._answer([call], lambda: [self._perform(call.request)])

    def _answer(self, calls: list[ReceivedCall], perform: Callable[[], Sequence[object]]) -> None:
        try:
            values = perform()
        except Exception as error:  # noqa: BLE001 - the engine raises bare Exceptions, it has no type of its own
            for call in calls:
                self._pipe.fail(call.call_id, type(error).__name__)
            return
        for call, value in zip(calls, values, strict=True):
            self._pipe.reply(call.call_id, value)

    def _perform(self, request: object) -> object:
        match request:
            case Upsert(points):
                self._shard.upsert(points)
            case Remove(user_id, message_id, from_part):
                self._shard.remove(user_id, message_id, from_part)
            case RemoveVersions(user_id, sequences):
                return self._shard.remove_versions(user_id, sequences)
            case ReadWhole(offset, most):
                return self._shard.read_whole(offset, most)
            case StoreWhole(whole):
                self._shard.store_whole(whole)
            case Flush():
                self._shard.flush()
            case CopyLiving():
                return self._copy_living(request)
            case _:
                return self._read(request)
        return None

    def _read(self, request: object) -> object:
        match request:
            case FirstVectors(user_id, message_ids):
                return self._shard.first_vectors(user_id, message_ids)
            case GetVectors(user_id, message_id, sequence):
                return self._shard.vectors(user_id, message_id, sequence)
            case ReadPoints():
                return self._shard.read_points(request)
            case GetUsers():
                return self._shard.users()
            case Count(exact):
                return self._shard.count(exact=exact)
        return None

    def _copy_living(self, wanted: CopyLiving) -> bool | CopyRefused:
        try:
            return self._shard.copy_living(begins=wanted.begins, most=wanted.most)
        except NoRoomError as refused:
            return CopyRefused(str(refused))


def main(descriptor: int, directory: Path, dimension: int, limits: CopyLimits, pack_points: int) -> None:
    """Open the shard, say so, and work. A damaged file must not make the engine write larger files than its memory."""
    pipe = WorkerPipe(descriptor)
    if limits.memory_max_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits.memory_max_bytes, limits.memory_max_bytes))
    try:
        with opening(directory):
            shard = Shard(directory, dimension, limits, pack_points)
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
    dimension_, memory_max, free_min, pack = map(int, numbers)
    main(int(descriptor_), Path(directory_), dimension_, CopyLimits(free_min, memory_max), pack)
