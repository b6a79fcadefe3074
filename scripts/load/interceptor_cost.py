"""What does it cost that gRPC runs the interceptor? `PYTHONPATH=scripts python -m load.interceptor_cost` (Linux).

Three servers in one process give the same empty answer: one with NoMemory's interceptor, one with the same guard
wrapped around the handler once, one with nothing but gRPC. Another process calls them in turn, in short rounds of
alternating order, so that whatever else the machine does falls on all of them. Prints the CPU time of a call.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

import uvloop
from load.closed_loop import each_once, methods
from load.null_process import NullServers, null_servers
from load.null_server import SERVICE
from load.usage import run_ns

from nomemory.v1.query_service_pb2 import ListMessagesRequest

CONCURRENCIES = (1, 16)
_WARM_UP_CALLS = 1000


async def call(target: str, calls: int, concurrency: int) -> None:
    """Call a null server so many times over one connection."""
    raw = ListMessagesRequest(user_id="u", page_size=1).SerializeToString()
    async with AsyncExitStack() as stack:
        [method] = await methods(stack, target, f"/{SERVICE}/ListMessages", 1)
        await each_once([partial(method, raw)] * calls, concurrency)


def costs_us(servers: NullServers, calls: int, rounds: int, concurrency: int) -> Mapping[str, Sequence[float]]:
    """Return the CPU time per call in microseconds, one figure for each round, by the name of the server."""
    targets = {"intercepted": servers.intercepted, "wrapped": servers.wrapped, "bare": servers.bare}
    costs: dict[str, list[float]] = {name: [] for name in targets}
    for target in targets.values():
        uvloop.run(call(target, _WARM_UP_CALLS, concurrency))
    for turn in range(rounds):
        for name in list(targets) if turn % 2 else reversed(targets):
            before = run_ns(servers.pids)
            uvloop.run(call(targets[name], calls, concurrency))
            costs[name].append((run_ns(servers.pids) - before) / 1000 / calls)
    return costs


def print_costs(concurrency: int, costs: Mapping[str, Sequence[float]]) -> None:
    """Print a row for each server: median CPU, and the median over rounds of its ratio to the wrapper."""
    for name, figures in costs.items():
        ratio = statistics.median(one / other for one, other in zip(figures, costs["wrapped"], strict=True))
        print(f"| {name} | {concurrency} | {statistics.median(figures):.1f} | {ratio:.3f} |", flush=True)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500, help="calls in a round")
    parser.add_argument("--rounds", type=int, default=60, help="rounds for each server")
    arguments = parser.parse_args()
    print("| server | concurrency | CPU µs a call, median | ratio to wrapped, median |\n|---|---|---|---|")
    with null_servers() as servers:
        for concurrency in CONCURRENCIES:
            print_costs(concurrency, costs_us(servers, arguments.calls, arguments.rounds, concurrency))


if __name__ == "__main__":
    main()
