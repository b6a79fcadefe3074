"""How busy a backlog keeps the local embedder: its process can do no more than work all the time."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import grpc
from load.corpus import Corpus, Size
from load.ingest import WRITE
from load.server_process import ServerProcess
from load.usage import cpu_s

from nomemory.server.embedding.local import cache_directory
from nomemory.server.embedding.local_model import Capacity, measured, package_model
from nomemory.server.embedding.local_worker import load
from nomemory.v1.ingest_service_pb2 import GetIndexStatusRequest
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub

_SIZE = Size(messages=6_000, users=100, heavy=600, vectors=0)
"""Of which the first phase is written: a tenth."""
_UNMEASURED = 50
"""Messages at the beginning and at the end of the backlog that do not count: the model loads, the work runs out."""
_LOOK_S = 0.05
_GIVE_UP_S = 300.0
_MODULE = "nomemory.server.embedding.local_worker"


def embedder_figures(data: Path) -> dict[str, float]:
    """Write a backlog to a fresh server with the local embedder; returns the share of the time that its process worked.

    Beside it, the CPU time that a fixed list of texts takes, in this process.

    Raises:
        TimeoutError: the backlog does not shrink.
    """
    server = ServerProcess(data, workers=1, embedder="local")
    server.start()
    try:
        with grpc.insecure_channel(server.target) as channel:
            ingest = IngestServiceStub(channel)
            written = _write(channel)
            _wait_until_left(ingest, written - _UNMEASURED)
            embedders = [pid for pid in server.pids() if _MODULE in _command(pid)]
            before = {pid: cpu_s([pid]) for pid in embedders}
            began, left = time.perf_counter(), _left(ingest)
            left -= _wait_until_left(ingest, _UNMEASURED)
            seconds = time.perf_counter() - began
            busy_s = max(cpu_s([pid]) - before[pid] for pid in embedders)
    finally:
        server.stop()
    speed = measured(load(package_model(cache_directory()).arguments, Capacity()))
    return {"busy": round(busy_s / seconds, 3), "messages_per_s": round(left / seconds, 1), **asdict(speed)}


def _write(channel: grpc.Channel) -> int:
    write: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(WRITE)
    for batch in Corpus(_SIZE, 0).batches():
        write(batch)
    return _SIZE.of_phase(0)[0]


def _left(ingest: IngestServiceStub) -> int:
    status = ingest.GetIndexStatus(GetIndexStatusRequest())
    return int(status.vector.pending)


def _wait_until_left(ingest: IngestServiceStub, most: int) -> int:
    """Wait until at most so many messages are left to embed; returns how many are."""
    give_up = time.monotonic() + _GIVE_UP_S
    while (left := _left(ingest)) > most:
        if time.monotonic() > give_up:
            raise TimeoutError("the embedder does not get on")
        time.sleep(_LOOK_S)
    return left


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
