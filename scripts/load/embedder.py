"""Measure the utilization and the speed of the local embedder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import grpc
from load.corpus import Corpus, CorpusSize
from load.ingest import WRITE
from load.server_process import ServerProcess
from load.usage import measure_cpu_s

from nomemory.server.embedding.local import get_cache_directory
from nomemory.server.embedding.local_model import ModelResources, TextKind, TextModel, create_package_model
from nomemory.server.embedding.local_worker import load_text_model
from nomemory.v1.ingest_service_pb2 import GetIndexStatusRequest
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub

_SIZE = CorpusSize(messages=6_000, users=100, heavy=600, vectors=0)
"""Size of the corpus. Only its first phase, 10 % of the messages, is written."""
_UNMEASURED = 50
"""Messages at the start and at the end of the backlog that are not measured (model loading, partial batches)."""
_POLL_S = 0.05
_TIMEOUT_S = 300.0
_MODULE = "nomemory.server.embedding.local_worker"
_TEXTS: Final = (
    (
        "I moved to the flat above the bakery in March, and the smell of bread still wakes me before the alarm does, "
        "even though I have slept with the window shut ever since the frost came."
    ),
    (
        "Could you remind Anna that the report on the new tram line is due on Friday, and that I will bring the maps? "
        "She wanted the old ones too, with the notes that we took at the depot."
    ),
    "That sounds lovely! How long did the two of you stay at the lake?",
    "我从小就不吃辣椒，因为胃不好，所以聚餐的时候麻烦帮我点一份清淡的菜，汤也不要太油，米饭有没有都可以。",
    "下周三下午三点我们在图书馆门口见面，记得带上身份证和上次借的那两本书，如果下雨就改到一楼的咖啡店里等。",
)
"""Texts with the average length of chat messages, 37 tokens."""
_QUERY: Final = "When is the report on the tram due?"
_REPETITIONS: Final = 4
_ROUNDS: Final = 4


def measure_embedder(data: Path) -> dict[str, float]:
    """Measure the embedder of a new server that indexes a backlog, then the same model alone in this process.

    Returns:
        `busy`, the share of time that the embedder process uses the CPU; `messages_per_s`, the indexing rate of the
        server; and the fields of `_ModelSpeed`.

    Raises:
        TimeoutError: the backlog was not indexed in time.
    """
    server = ServerProcess(data, embedder="local")
    server.start()
    try:
        with grpc.insecure_channel(server.target) as channel:
            ingest = IngestServiceStub(channel)
            written = _write_messages(channel)
            _wait_for_pending_count(ingest, written - _UNMEASURED)
            embedders = [pid for pid in server.list_pids() if _MODULE in _read_command_line(pid)]
            before = {pid: measure_cpu_s([pid]) for pid in embedders}
            began, left = time.perf_counter(), _read_pending_count(ingest)
            left -= _wait_for_pending_count(ingest, _UNMEASURED)
            seconds = time.perf_counter() - began
            busy_s = max(measure_cpu_s([pid]) - before[pid] for pid in embedders)
    finally:
        server.stop()
    arguments = create_package_model(get_cache_directory()).arguments
    models = {kind: load_text_model(arguments, kind, ModelResources()) for kind in TextKind}
    speed = _measure_models(models[TextKind.QUERY], models[TextKind.DOCUMENT])
    return {"busy": round(busy_s / seconds, 3), "messages_per_s": round(left / seconds, 1), **asdict(speed)}


def _write_messages(channel: grpc.Channel) -> int:
    write: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(WRITE)
    for batch in Corpus(_SIZE, 0).generate_batches():
        write(batch)
    return _SIZE.get_phase_counts(0)[0]


def _read_pending_count(ingest: IngestServiceStub) -> int:
    status = ingest.GetIndexStatus(GetIndexStatusRequest())
    return int(status.vector.pending)


def _wait_for_pending_count(ingest: IngestServiceStub, maximum: int) -> int:
    """Wait until the vector index has at most `maximum` pending messages; return their number."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (left := _read_pending_count(ingest)) > maximum:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{left} messages are still pending after {_TIMEOUT_S:.0f} s")
        time.sleep(_POLL_S)
    return left


def _read_command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _ModelSpeed:
    """The speed of a local embedding model.

    Attributes:
        texts_per_cpu_s: number of batched texts that are embedded per CPU second.
        query_cpu_ms: CPU time of a single query of twelve tokens, in milliseconds.
    """

    texts_per_cpu_s: float
    query_cpu_ms: float


def _measure_models(queries: TextModel, documents: TextModel) -> _ModelSpeed:
    """Measure the speed of the models of queries and documents in this process, after one warm-up call each."""
    texts = _TEXTS * _REPETITIONS
    batch_s = _measure_cpu_s(lambda: documents.encode(texts))
    query_s = _measure_cpu_s(lambda: queries.encode([_QUERY]))
    return _ModelSpeed(round(len(texts) / batch_s, 1), round(1000 * query_s, 2))


def _measure_cpu_s(work: Callable[[], object]) -> float:
    """Return the mean CPU time of `work` in seconds, after one warm-up call."""
    work()
    before_s = time.process_time()
    for _ in range(_ROUNDS):
        work()
    return (time.process_time() - before_s) / _ROUNDS
