"""What do metrics cost? `PYTHONPATH=scripts python -m load.metrics_cost [--rounds 60]` (Linux).

One server is called in short rounds. Before each it is told by a signal to count its calls, or not to, in alternating
order, so that whatever else the machine does falls on both. Prints the CPU time of a call with and without, the median
of the ratios of neighbouring rounds with its quartiles, and the CPU time of a scrape.
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
import urllib.request
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import uvloop
from load.closed_loop import each_once, methods
from load.usage import run_ns

from evaluation.temporary_server import ready_address
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub

USERS, MESSAGES, CONCURRENCY, SCRAPES = 20, 200, 8, 50
CALLS = {"ListMessages": 400, "HybridSearch": 80}
"""Calls in a round."""
_SERVE = """
import signal, sys
from nomemory.server.metrics.meters import CallMeter
counts = CallMeter.ended
def turn(*_):
    CallMeter.ended = (lambda *_: None) if CallMeter.ended is counts else counts
signal.signal(signal.SIGUSR1, turn)
sys.argv = ["nomemory", "serve"]
from nomemory.cli.main import main
main()
"""
_TURNED_S = 0.05
"""How long a server may take to notice the signal."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A server. `http` is where it is scraped."""

    process: subprocess.Popen[str]
    target: str
    http: str

    @classmethod
    def start(cls, data: Path) -> Measured:
        """Start a server that counts, and give it messages."""
        environment = {
            **os.environ,
            "NOMEMORY_DATA": str(data),
            "NOMEMORY_LISTEN": "127.0.0.1:0",
            "NOMEMORY_HTTP": "127.0.0.1:0",
            "NOMEMORY_EMBEDDER": "none",
        }
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", _SERVE],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        server = cls(process, ready_address(process), ready_address(process).partition("//")[2])
        server.fill()
        return server

    def fill(self) -> None:
        """Write the messages, and wait until they are found by words."""
        with grpc.insecure_channel(self.target) as channel:
            ingest = IngestServiceStub(channel)
            for user in range(USERS):
                messages = [_message(f"u{user}", number) for number in range(MESSAGES)]
                ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
            while ingest.GetIndexStatus(i.GetIndexStatusRequest()).lexical.pending:
                time.sleep(0.1)

    def turn(self) -> None:
        """Have it count from now on, or not any more."""
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(_TURNED_S)

    def cost_us(self, method: str) -> float:
        """Return the CPU time of a call in microseconds, over one round."""
        before = run_ns([self.process.pid])
        uvloop.run(_round(self.target, method))
        return (run_ns([self.process.pid]) - before) / CALLS[method] / 1000

    def scrape_us(self) -> float:
        """Return the CPU time of a scrape in microseconds."""
        before = run_ns([self.process.pid])
        for _ in range(SCRAPES):
            with urllib.request.urlopen(f"http://{self.http}/metrics") as answer:
                answer.read()
        return (run_ns([self.process.pid]) - before) / SCRAPES / 1000


def _message(user: str, number: int) -> m.ChatMessage:
    content = f"Number {number} tells of trains, boats and the harbour where they wait for each other."
    message = m.ChatMessage(user_id=user, message_id=f"m{number}", role=m.ROLE_USER, content=content)
    message.ts.FromSeconds(1_700_000_000 + number)
    return message


def _request(method: str, user: str) -> bytes:
    if method == "ListMessages":
        return q.ListMessagesRequest(user_id=user, page_size=50).SerializeToString()
    return q.HybridSearchRequest(user_id=user, query_text="Where do the boats wait?").SerializeToString()


async def _round(target: str, method: str) -> None:
    async with AsyncExitStack() as stack:
        [call] = await methods(stack, target, f"/nomemory.v1.QueryService/{method}", 1)
        calls = [partial(call, _request(method, f"u{number % USERS}")) for number in range(CALLS[method])]
        await each_once(calls, CONCURRENCY)


def compare(server: Measured, method: str, rounds: int) -> None:
    """Print what a call costs. The server counts before and after."""
    server.cost_us(method)
    costs: dict[bool, list[float]] = {True: [], False: []}
    counts = True
    for _ in range(rounds):
        for _ in range(2):  # on, off; off, on; and so forth
            costs[counts].append(server.cost_us(method))
            if len(costs[True]) != len(costs[False]):
                server.turn()
                counts = not counts
    if not counts:
        server.turn()
    ratios = [on / off for on, off in zip(costs[True], costs[False], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    off, on = statistics.median(costs[False]), statistics.median(costs[True])
    print(f"{method}: off {off:.1f} µs, on {on:.1f} µs; ratio {middle:.3f} ({low:.3f} to {high:.3f})", flush=True)


def measure(rounds: int) -> None:
    """Print what each kind of call costs, and a scrape."""
    with tempfile.TemporaryDirectory() as directory:
        server = Measured.start(Path(directory))
        try:
            for method in CALLS:
                compare(server, method, rounds)
            print(f"a scrape: {server.scrape_us():.0f} µs")
        finally:
            server.process.terminate()
            server.process.wait()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    measure(parser.parse_args().rounds)


if __name__ == "__main__":
    main()
