"""Closed loops of calls: each of the concurrent callers waits for an answer before it asks again.

Requests are serialised before, and answers are not parsed, so that the load costs little beside the server.
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
from load.usage import cpu_s, family_cpu_s

Metadata = tuple[tuple[str, str], ...]
Method = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]

_CONNECTIONS_MAX = 8
WARM_UP = 0.2
"""Share of the time that passes before anything counts."""
_RECEIVE_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Load:
    """What to call, over and over.

    Attributes:
        target: HOST:PORT, or several of them with spaces between: the connections are spread over them.
        pids: the server's processes, whose CPU time is counted.
        database: the process that all others of the database are children of; 0: there is none.
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
class Outcome:
    """What came of it. Waits are in milliseconds, one for each answer."""

    seconds: float = 0.0
    server_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    database_cpu_s: float = 0.0
    waits_ms: list[float] = field(default_factory=list)
    bytes_received: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def figures(self) -> dict[str, float]:
        """Return the figures of a case; empty if nothing was answered."""
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


def closed_loop(load: Load) -> Outcome:
    """Run a load in this process."""
    return uvloop.run(_closed_loop(load))


async def methods(stack: AsyncExitStack, target: str, method: str, connections: int) -> list[Method]:
    """Open connections, each of its own, to the targets by turns; give the method on each, bytes in, bytes out."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", _RECEIVE_MAX)]
    to = islice(cycle(target.split()), connections)
    channels = [await stack.enter_async_context(grpc.aio.insecure_channel(item, options)) for item in to]
    return [channel.unary_unary(method) for channel in channels]


async def _closed_loop(load: Load) -> Outcome:
    outcome = Outcome()
    async with AsyncExitStack() as stack:
        on = await methods(stack, load.target, load.method, min(load.concurrency, _CONNECTIONS_MAX))
        await _all_call(on, load, load.seconds * WARM_UP, Outcome())
        server, database = cpu_s(load.pids), family_cpu_s(load.database)
        client, began = time.process_time(), time.perf_counter()
        await _all_call(on, load, load.seconds, outcome)
        outcome.seconds = time.perf_counter() - began
        outcome.database_cpu_s = family_cpu_s(load.database) - database
        outcome.server_cpu_s, outcome.client_cpu_s = cpu_s(load.pids) - server, time.process_time() - client
    return outcome


async def _all_call(on: Sequence[Method], load: Load, seconds: float, outcome: Outcome) -> None:
    end = time.perf_counter() + seconds
    callers = [
        _call_until(
            end, on[n % len(on)], load, range(n, len(load.requests) * load.concurrency, load.concurrency), outcome
        )
        for n in range(load.concurrency)
    ]
    await asyncio.gather(*callers)


async def _call_until(end: float, method: Method, load: Load, turns: range, outcome: Outcome) -> None:
    turn = 0
    while (now := time.perf_counter()) < end:
        at = turns[turn % len(turns)]
        turn += 1
        request, metadata = load.requests[at % len(load.requests)], load.metadata[at % len(load.metadata)]
        try:
            answer = await method(request, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            outcome.errors[error.code().name] += 1
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return
            continue
        outcome.waits_ms.append(1000 * (time.perf_counter() - now))
        outcome.bytes_received += len(answer)


async def each_once(calls: Sequence[Callable[[], Awaitable[object]]], concurrency: int) -> None:
    """Make all calls, so many at a time."""
    left = iter(calls)

    async def caller() -> None:
        for call in left:
            await call()

    await asyncio.gather(*(caller() for _ in range(concurrency)))
