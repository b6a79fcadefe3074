"""Closed-loop gRPC load: each concurrent caller waits for the reply before it sends the next request.

Requests are serialized in advance and replies are not parsed, so that the client uses little CPU time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import cycle, islice

import grpc
import numpy as np
import uvloop
from load.usage import measure_cpu_s, measure_tree_cpu_s

Metadata = tuple[tuple[str, str], ...]
Method = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]

_CONNECTIONS_MAX = 8
WARM_UP = 0.2
"""Duration of the warm-up, as a share of the measured duration."""
_RECEIVE_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LoadParameters:
    """Parameters of a closed-loop load, in which each caller waits for the reply before its next request.

    Attributes:
        target: HOST:PORT of the server, or several addresses separated by spaces, over which connections rotate.
        requests: serialized requests, which the callers send cyclically.
        pids: ids of the server processes whose CPU time is measured.
        metadata: metadata of the requests, in the same order, which the callers send cyclically.
        database: process id of the PostgreSQL postmaster; 0 without PostgreSQL.
    """

    target: str
    method: str
    requests: Sequence[bytes]
    concurrency: int
    seconds: float
    pids: list[int]
    metadata: Sequence[Metadata] = ((),)
    database: int = 0


@dataclass(slots=True)
class LoadOutcome:
    """Latency of each reply in milliseconds, CPU time, received bytes and errors of a load."""

    seconds: float = 0.0
    server_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    database_cpu_s: float = 0.0
    waits_ms: list[float] = field(default_factory=list)
    bytes_received: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def summarize(self) -> dict[str, float]:
        """Return throughput, latency percentiles and CPU time per call; return an empty dict without replies."""
        count = len(self.waits_ms)
        if not count:
            return {}
        p50, p99 = np.percentile(self.waits_ms, [50, 99])
        return {
            "rps": round(count / self.seconds, 1),
            "p50_ms": round(float(p50), 3),
            "p99_ms": round(float(p99), 3),
            "max_ms": round(max(self.waits_ms), 3),
            "cpu_ms": round(1000 * self.server_cpu_s / count, 3),
            "database_cpu_ms": round(1000 * self.database_cpu_s / count, 3),
            "client_cpu_ms": round(1000 * self.client_cpu_s / count, 3),
            "reply_bytes": self.bytes_received // count,
        }


def run_closed_loop(load: LoadParameters) -> LoadOutcome:
    """Run a closed-loop load in this process."""
    return uvloop.run(_run_closed_loop(load))


async def open_methods(stack: AsyncExitStack, target: str, method: str, connections: int) -> list[Method]:
    """Open `connections` connections, rotating over the targets.

    Return the method of each connection; its requests and replies are serialized messages.
    """
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", _RECEIVE_MAX)]
    targets = islice(cycle(target.split()), connections)
    channels = [await stack.enter_async_context(grpc.aio.insecure_channel(item, options)) for item in targets]
    return [channel.unary_unary(method) for channel in channels]


async def _run_closed_loop(load: LoadParameters) -> LoadOutcome:
    outcome = LoadOutcome()
    async with AsyncExitStack() as stack:
        channels = await open_methods(stack, load.target, load.method, min(load.concurrency, _CONNECTIONS_MAX))
        await _run_callers(channels, load, load.seconds * WARM_UP, LoadOutcome())
        server, database = measure_cpu_s(load.pids), measure_tree_cpu_s(load.database)
        client, began = time.process_time(), time.perf_counter()
        await _run_callers(channels, load, load.seconds, outcome)
        outcome.seconds = time.perf_counter() - began
        outcome.database_cpu_s = measure_tree_cpu_s(load.database) - database
        outcome.server_cpu_s, outcome.client_cpu_s = measure_cpu_s(load.pids) - server, time.process_time() - client
    return outcome


async def _run_callers(channels: Sequence[Method], load: LoadParameters, seconds: float, outcome: LoadOutcome) -> None:
    end = time.perf_counter() + seconds
    callers = [
        _call_until(
            end,
            channels[n % len(channels)],
            load,
            range(n, len(load.requests) * load.concurrency, load.concurrency),
            outcome,
        )
        for n in range(load.concurrency)
    ]
    await asyncio.gather(*callers)


async def _call_until(end: float, method: Method, load: LoadParameters, turns: range, outcome: LoadOutcome) -> None:
    turn = 0
    while (now := time.perf_counter()) < end:
        index = turns[turn % len(turns)]
        turn += 1
        request, metadata = load.requests[index % len(load.requests)], load.metadata[index % len(load.metadata)]
        try:
            answer = await method(request, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            outcome.errors[error.code().name] += 1
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return
            continue
        outcome.waits_ms.append(1000 * (time.perf_counter() - now))
        outcome.bytes_received += len(answer)


async def call_all(calls: Sequence[Callable[[], Awaitable[object]]], concurrency: int) -> None:
    """Await all calls, with at most `concurrency` of them in flight."""
    remaining = iter(calls)

    async def caller() -> None:
        for call in remaining:
            await call()

    await asyncio.gather(*(caller() for _ in range(concurrency)))
