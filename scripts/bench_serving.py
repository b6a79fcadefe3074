"""Compare gRPC server types on short reads: `python scripts/bench_serving.py [--seconds 4] [--messages 100000]`.

The script starts each server type in a separate process. It measures two calls in a closed loop: a read of 50 messages,
and a call that returns a prebuilt response. The script prints calls per second and the server's CPU time per call.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

import child_process
import grpc
import uvloop

from nomemory.server.api.response_encoding import encode_listing_reply
from nomemory.server.message import Message, Role
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.runtime.token_cipher import TokenCipher
from nomemory.server.search.cursor import CursorCodec, Listing
from nomemory.server.search.time_listing import TimeListing
from nomemory.server.store.results import OnConflict
from nomemory.server.store.sqlite.reader import SqliteLogReader
from nomemory.server.store.sqlite.writer import SqliteLogWriter
from nomemory.v1 import query_service_pb2 as pb

USERS = 100
KINDS = ("aio", "aio-uvloop", "threads-1", "threads-4")
CALLS = ("null", "list-50")
SERVICE = "bench.Reads"

Read = Callable[[bytes], Coroutine[None, None, bytes]]


class _ThreadLocalListing(local):
    listing: TimeListing | None = None


def make_reads(path: Path) -> dict[str, Read]:
    """Return the two benchmarked calls by name; each thread opens its own reader of the message log on first use."""
    thread_state = _ThreadLocalListing()

    def thread_listing() -> TimeListing:
        if thread_state.listing is None:
            thread_state.listing = TimeListing(
                SqliteLogReader(path), CursorCodec(TokenCipher(bytes(32), "bench"), 60.0), 3_000_000, RoundRobinLimit(1)
            )
        return thread_state.listing

    async def list_messages(raw: bytes) -> bytes:
        request = pb.ListMessagesRequest.FromString(raw)
        page = await thread_listing().read_wire_page(Listing("ListMessages", request.user_id, "", EVERYTHING), 50, "")
        return encode_listing_reply(page.wires, None, pb.ListMessagesResponse(next_cursor=page.next_cursor))

    prebuilt = run_sync(list_messages(pb.ListMessagesRequest(user_id="u0").SerializeToString()))

    async def return_nothing(_raw: bytes) -> bytes:
        return prebuilt

    return {"null": return_nothing, "list-50": list_messages}


def run_sync(read: Coroutine[None, None, bytes]) -> bytes:
    """Run a coroutine that never suspends, without an event loop."""
    try:
        read.send(None)
    except StopIteration as stop:
        reply: bytes = stop.value
        return reply
    raise RuntimeError("the coroutine suspended: run_sync requires one that never awaits")


def make_handler(calls: dict[str, Read], *, asynchronous: bool) -> grpc.GenericRpcHandler:
    """Return a gRPC handler for the calls that passes raw bytes through."""

    def make_synchronous_handler(read: Read) -> Callable[[bytes, object], bytes]:
        return lambda raw, _context: run_sync(read(raw))

    def make_asynchronous_handler(read: Read) -> Callable[[bytes, object], object]:
        async def answer(raw: bytes, _context: object) -> bytes:
            return await read(raw)

        return answer

    wrap = make_asynchronous_handler if asynchronous else make_synchronous_handler
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: grpc.unary_unary_rpc_method_handler(wrap(read)) for name, read in calls.items()
    }
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def serve(kind: str, path: Path) -> None:
    """Print the port of the server, then serve until the process is killed."""
    if kind.startswith("threads"):
        server = grpc.server(ThreadPoolExecutor(int(kind.removeprefix("threads-"))))
        server.add_generic_rpc_handlers((make_handler(make_reads(path), asynchronous=False),))
        print(server.add_insecure_port("127.0.0.1:0"), flush=True)
        server.start()
        server.wait_for_termination()
    else:
        run = uvloop.run if kind == "aio-uvloop" else asyncio.run
        run(serve_aio(path))


async def serve_aio(path: Path) -> None:
    """Serve with `grpc.aio` on the running event loop."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((make_handler(make_reads(path), asynchronous=True),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


async def run_callers(port: int, call: str, concurrency: int, seconds: float) -> int:
    """Call the server in a closed loop; return the number of replies."""
    count = 0
    request = [pb.ListMessagesRequest(user_id=f"u{n}").SerializeToString() for n in range(USERS)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/{call}")
        end = time.perf_counter() + seconds

        async def call_until_end(start: int) -> None:
            nonlocal count
            while time.perf_counter() < end:
                await method(request[(start + count) % USERS])
                count += 1

        await asyncio.gather(*(call_until_end(n) for n in range(concurrency)))
    return count


def measure_cpu_s(pid: int) -> float:
    """Return the user and system CPU time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def write_messages(path: Path, messages: int) -> None:
    """Create a SQLite message log that contains the benchmark messages."""
    writer = SqliteLogWriter(path, queue_max=8, queue_max_bytes=10**9, announce=lambda: None)
    for start in range(0, messages, 1000):
        batch = [
            Message(f"u{n % USERS}", f"m{n:08}", n * 1_000_000, Role.USER, "一条普通的消息 and a plain one " * 4)
            for n in range(start, start + 1000)
        ]
        await writer.write(batch, on_conflict=OnConflict.REFUSE)
    writer.close()


def print_measurement(kind: str, path: Path, seconds: float) -> None:
    """Run one server type and print its table rows."""
    server = child_process.start_program(__file__, "--serve", kind, "--log", str(path))
    port = int(server.stdout.readline()) if server.stdout else 0
    for call in CALLS:
        for concurrency in (1, 16):
            asyncio.run(run_callers(port, call, concurrency, 0.5))
            before = measure_cpu_s(server.pid)
            count = uvloop.run(run_callers(port, call, concurrency, seconds))
            spent = measure_cpu_s(server.pid) - before
            rate, cost_ms = count / seconds, 1000 * spent / count
            print(f"| {kind} | {call} | {concurrency} | {rate:,.0f} | {cost_ms:.3f} |", flush=True)
    server.kill()
    server.wait()


def main() -> None:
    """Run the benchmark, or one server with `--serve`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.log)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log.db"
        asyncio.run(write_messages(path, arguments.messages))
        print("| server | call | concurrency | calls/s | server CPU ms/call |\n|---|---|---|---|---|")
        for kind in KINDS:
            print_measurement(kind, path, arguments.seconds)


if __name__ == "__main__":
    main()
