"""How busy a backlog keeps the local embedder: its process can do no more than work all the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import grpc
from load.corpus import Corpus, Size
from load.ingest import WRITE
from load.server_process import ServerProcess
from load.usage import cpu_s

from nomemory.server.embedding.local import cache_directory
from nomemory.server.embedding.local_model import Capacity, TextModel, package_model
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
"""As long as messages in a chat are: 37 tokens on average."""
_QUERY: Final = "When is the report on the tram due?"
_TOGETHER: Final = 4
_ROUNDS: Final = 4


def embedder_figures(data: Path) -> dict[str, float]:
    """Write a backlog to a fresh server with the local embedder; returns the share of the time that its process worked.

    Beside it, the CPU time that a fixed list of texts takes, in this process.

    Raises:
        TimeoutError: the backlog does not shrink.
    """
    server = ServerProcess(data, embedder="local")
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
    speed = _measured(load(package_model(cache_directory()).arguments, Capacity()))
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


@dataclass(frozen=True, slots=True)
class _LocalSpeed:
    """The CPU time of a model.

    Attributes:
        texts_per_cpu_s: messages, in batches.
        query_cpu_ms: a query of twelve tokens, alone.
    """

    texts_per_cpu_s: float
    query_cpu_ms: float


def _measured(model: TextModel) -> _LocalSpeed:
    """Embed some texts in this process (1 s). The first ones are not counted."""
    texts = _TEXTS * _TOGETHER
    batch_s = _mean_cpu_s(lambda: model.encode(texts, is_query=False))
    query_s = _mean_cpu_s(lambda: model.encode([_QUERY], is_query=True))
    return _LocalSpeed(round(len(texts) / batch_s, 1), round(1000 * query_s, 2))


def _mean_cpu_s(work: Callable[[], object]) -> float:
    """Return the mean CPU time of some work, done several times."""
    work()
    before_s = time.process_time()
    for _ in range(_ROUNDS):
        work()
    return (time.process_time() - before_s) / _ROUNDS
