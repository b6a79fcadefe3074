"""What do traces cost? `PYTHONPATH=scripts python -m load.tracing_cost [--rounds 30]` (Linux).

One server is called in short rounds. Before each it is told by a signal what to do with traces: it begins no span at
all, records none, a tenth, or all, and in the next turn the other way round. So whatever else the machine does falls on
all of them. A collector takes the spans. Prints for each kind of call the CPU time of a call over all processes of the
server, the one that sends spans among them, and the median of the ratios to rounds without spans, with its quartiles.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import uvloop
from load.closed_loop import each_once, methods
from load.usage import run_ns

from evaluation.temporary_server import process_tree, ready_address
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub

USERS, MESSAGES, CONCURRENCY = 20, 200, 8
CALLS = {"QueryService/ListMessages": 400, "QueryService/HybridSearch": 80, "RecallService/Recall": 40}
"""Calls in a round."""
KINDS = ("off", "none recorded", "a tenth", "all")
"""What the server does in a round, in the order of its signals."""
_SERVE = """
import signal, sys
from functools import partial
from nomemory.server.rpc import call_lifecycle
from nomemory.spans.tracer import Sampling
begin, sampling = call_lifecycle.begin_call, None
def begun(tracer, path, metadata):
    if sampling is None:
        return None
    tracer.sampling = sampling
    return begin(tracer, path, metadata)
def turn(to, *_):
    global sampling
    sampling = to
for n, to in enumerate((None, Sampling(0), Sampling(0.1), Sampling(1))):
    signal.signal(signal.SIGRTMIN + n, partial(turn, to))
call_lifecycle.begin_call = begun
sys.argv = ["nomemory", "serve"]
from nomemory.cli.main import main
main()
"""
_TURNED_S = 0.05
"""How long a server may take to notice the signal."""
_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_SETTLE_S = 1.2
"""How long a round waits until its spans are sent: they belong to its cost."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A server, and the processes that it has."""

    process: subprocess.Popen[str]
    target: str

    @classmethod
    def start(cls, data: Path, collector: str) -> Measured:
        """Start a server with traces, and give it messages."""
        environment = {
            **os.environ,
            "NOMEMORY_DATA": str(data),
            "NOMEMORY_LISTEN": "127.0.0.1:0",
            "NOMEMORY_EMBEDDER": "none",
            "NOMEMORY_OTLP_ENDPOINT": collector,
        }
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", _SERVE],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        server = cls(process, ready_address(process))
        server.fill()
        return server

    def stop(self) -> None:
        """Tell it to end, and wait for it."""
        self.process.terminate()
        self.process.wait()

    def turn(self, kind: str) -> None:
        """Tell it what to do."""
        self.process.send_signal(signal.SIGRTMIN + KINDS.index(kind))
        time.sleep(_TURNED_S)

    def fill(self) -> None:
        """Write the messages, and wait until they are found by words."""
        with grpc.insecure_channel(self.target) as channel:
            ingest = IngestServiceStub(channel)
            for user in range(USERS):
                messages = [_message(f"u{user}", number) for number in range(MESSAGES)]
                ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
            while ingest.GetIndexStatus(i.GetIndexStatusRequest()).lexical.pending:
                time.sleep(0.1)

    def cost_us(self, method: str) -> float:
        """Return the CPU time of a call in microseconds, over one round and all processes."""
        pids = process_tree(self.process.pid)
        before = run_ns(pids)
        uvloop.run(_round(self.target, method))
        time.sleep(_SETTLE_S)
        return (run_ns(pids) - before) / CALLS[method] / 1000


def _message(user: str, number: int) -> m.ChatMessage:
    content = f"Number {number} tells of trains, boats and the harbour where they wait for each other."
    message = m.ChatMessage(user_id=user, message_id=f"m{number}", role=m.ROLE_USER, content=content)
    message.ts.FromSeconds(1_700_000_000 + number)
    return message


def _request(method: str, user: str) -> bytes:
    if method.endswith("ListMessages"):
        return q.ListMessagesRequest(user_id=user, page_size=50).SerializeToString()
    if method.endswith("HybridSearch"):
        return q.HybridSearchRequest(user_id=user, query_text="Where do the boats wait?").SerializeToString()
    return r.RecallRequest(question="Where do the boats wait?").SerializeToString()


async def _round(target: str, method: str) -> None:
    async with AsyncExitStack() as stack:
        [call] = await methods(stack, target, f"/nomemory.v1.{method}", 1)
        users = [f"u{number % USERS}" for number in range(CALLS[method])]
        calls = [partial(call, _request(method, user), metadata=(("x-user-id", user),)) for user in users]
        await each_once(calls, CONCURRENCY)


def compare(server: Measured, method: str, rounds: int) -> None:
    """Print what a call costs."""
    costs: dict[str, list[float]] = {name: [] for name in KINDS}
    server.cost_us(method)
    for number in range(rounds):
        for name in KINDS if number % 2 else KINDS[::-1]:
            server.turn(name)
            costs[name].append(server.cost_us(method))
    print(f"{method}: {_figures(costs)}", flush=True)


def _figures(costs: Mapping[str, Sequence[float]]) -> str:
    first, *others = KINDS
    said = [f"{first} {statistics.median(costs[first]):.1f} µs"]
    for name in others:
        ratios = [on / off for on, off in zip(costs[name], costs[first], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        said.append(f"{name} {statistics.median(costs[name]):.1f} µs, ratio {middle:.3f} ({low:.3f} to {high:.3f})")
    return "; ".join(said)


def collector(stack: ExitStack) -> str:
    """Run what takes spans and forgets them; return where."""
    take: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"")
    server = grpc.server(ThreadPoolExecutor(2))
    service = grpc.method_handlers_generic_handler(_EXPORT.split("/")[1], {"Export": take})
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    stack.callback(server.stop, 0)
    return f"http://127.0.0.1:{port}"


def measure(rounds: int) -> None:
    """Print what each kind of call costs."""
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = Measured.start(data, collector(stack))
        stack.callback(server.stop)
        for method in CALLS:
            compare(server, method, rounds)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    measure(parser.parse_args().rounds)


if __name__ == "__main__":
    main()
