"""Compare the storage engines of the message log: `python scripts/bench_log_engines.py --url postgresql://…`.

The script starts a server on SQLite and a server on a local PostgreSQL, and sends the same calls to both. The script
prints calls per second and the CPU time per call of the server (with its indexers) and of the database. The rows stay
in the schema that the URL names, so use a dedicated schema (`?search_path=…`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import asyncpg
import child_process
import grpc

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

USERS, BATCH = 200, 100
_TICKS = os.sysconf("SC_CLK_TCK")
_CONTENT = "We talked about the trip to Kochi, and that 我不吃辣 still holds; the hotel was cheaper, number {}."


@dataclass(frozen=True)
class BenchmarkCase:
    """A benchmarked call.

    Attributes:
        name: label of the call in the output.
        call: function that sends call number n, counted from 0.
        waits_for_indexes: whether the CPU time includes indexing the written messages.
    """

    name: str
    calls: int
    call: Callable[[int], Awaitable[object]]
    waits_for_indexes: bool = False


def measure_cpu_s_with_descendants(root: int) -> float:
    """Return the CPU seconds of a process and its descendants, including those that have exited."""
    parents, times = dict[int, int](), dict[int, float]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    return sum(seconds for process, seconds in times.items() if _is_descendant(process, root, parents))


def _is_descendant(process: int, root: int, parents: dict[int, int]) -> bool:
    while process not in {root, 0, 1}:
        process = parents.get(process, 0)
    return process == root


def _read_parent_pid(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


async def find_postmaster_pid(url: str) -> int:
    """Return the id of the postmaster, the parent of all backends of a database."""
    connection = await asyncpg.connect(url)
    parent = _read_parent_pid(await connection.fetchval("SELECT pg_backend_pid()"))
    await connection.close()
    return parent


def build_cases(channel: grpc.aio.Channel, messages: int, calls: int) -> list[BenchmarkCase]:
    """Return the benchmarked calls in execution order."""
    ingest, query = ingest_service_pb2_grpc.IngestServiceStub(channel), query_service_pb2_grpc.QueryServiceStub(channel)

    def build_user_id(n: int) -> str:
        return f"user-{n * 7919 % USERS}"

    def build_message(n: int) -> m.ChatMessage:
        chat_message = m.ChatMessage(
            user_id=f"user-{n % USERS}", message_id=f"m{n:07}", role=m.ROLE_USER, content=_CONTENT.format(n)
        )
        chat_message.ts.FromSeconds(1_700_000_000 + n)
        return chat_message

    def build_message_ids(n: int) -> list[str]:
        user_number = n * 7919 % USERS
        return [f"m{user_number + k * USERS:07}" for k in range(10)]

    def call_write(n: int, size: int) -> Awaitable[object]:
        return ingest.WriteMessages(
            i.WriteMessagesRequest(messages=map(build_message, range(n * size, n * size + size)))
        )

    def call_neighbors(n: int) -> Awaitable[object]:
        return query.GetNeighbors(
            q.GetNeighborsRequest(user_id=build_user_id(n), message_id=build_message_ids(n)[5], before=5, after=5)
        )

    return [
        BenchmarkCase(
            f"write {BATCH} messages", messages // BATCH, partial(call_write, size=BATCH), waits_for_indexes=True
        ),
        BenchmarkCase("write 1 message", calls // 4, lambda n: call_write(messages + n, 1), waits_for_indexes=True),
        BenchmarkCase(
            "list 50",
            calls,
            lambda n: query.ListMessages(q.ListMessagesRequest(user_id=build_user_id(n), page_size=50)),
        ),
        BenchmarkCase("neighbors 5 + 5", calls, call_neighbors),
        BenchmarkCase(
            "get 10",
            calls,
            lambda n: query.BatchGetMessages(
                q.BatchGetMessagesRequest(user_id=build_user_id(n), message_ids=build_message_ids(n))
            ),
        ),
    ]


async def run_case(case: BenchmarkCase, concurrency: int) -> float:
    """Send the calls of a case with `concurrency` callers; return the elapsed seconds."""
    numbers = iter(range(case.calls))

    async def send_requests() -> None:
        for n in numbers:
            await case.call(n)

    began = time.perf_counter()
    await asyncio.gather(*(send_requests() for _ in range(concurrency)))
    return time.perf_counter() - began


async def print_measurement(name: str, url: str, arguments: argparse.Namespace) -> None:
    """Print the cost of each call on one engine; an empty URL selects SQLite."""
    database = await find_postmaster_pid(url) if url else 0
    with tempfile.TemporaryDirectory() as data:
        environment = {
            **os.environ,
            "NOMEMORY_DATA": data,
            "NOMEMORY_LISTEN": "127.0.0.1:0",
            "NOMEMORY_EMBEDDER": "none",
        }
        environment |= {"NOMEMORY_DATABASE_URL": url, "NOMEMORY_LOG_LEVEL": "error", "NOMEMORY_AUDIT_LOG": "false"}
        server = child_process.start_program(child_process.NOMEMORY, "serve", environment=environment)
        try:
            assert server.stdout is not None  # noqa: S101
            address = re.search(r"\S+:[0-9]+", server.stdout.readline())
            assert address is not None  # noqa: S101
            async with grpc.aio.insecure_channel(address.group()) as channel:
                for case in build_cases(channel, arguments.messages, arguments.calls):
                    before = (
                        measure_cpu_s_with_descendants(server.pid),
                        measure_cpu_s_with_descendants(database) if database else 0.0,
                    )
                    took_s = await run_case(case, arguments.concurrency)
                    if case.waits_for_indexes:
                        await _wait_for_indexes(channel)
                    spent = (
                        measure_cpu_s_with_descendants(server.pid) - before[0],
                        (measure_cpu_s_with_descendants(database) if database else 0.0) - before[1],
                    )
                    server_cpu, database_cpu = (f"{1000 * seconds / case.calls:8.2f} ms" for seconds in spent)
                    rate = f"{name:9} {case.name:19} {case.calls / took_s:8.0f} /s"
                    print(f"{rate}  server {server_cpu}  database {database_cpu}")
        finally:
            server.terminate()
            server.wait()


async def _wait_for_indexes(channel: grpc.aio.Channel) -> None:
    """Wait for the lexical index, whose CPU time is part of the cost of a write."""
    stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
    while (await stub.GetIndexStatus(i.GetIndexStatusRequest())).lexical.pending:  # noqa: ASYNC110 - the server changes it
        await asyncio.sleep(0.1)


async def main() -> None:
    """Run the benchmark on SQLite, then on PostgreSQL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--concurrency", type=int, default=8, help="concurrent callers")
    arguments = parser.parse_args()
    for name, url in (("file", ""), ("postgres", arguments.url)):
        await print_measurement(name, url, arguments)


if __name__ == "__main__":
    asyncio.run(main())
