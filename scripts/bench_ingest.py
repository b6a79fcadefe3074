"""Measure the writes of servers that share one PostgreSQL: `python scripts/bench_ingest.py --url postgresql://…`.

The script starts servers on a local PostgreSQL. Concurrent callers write batches with messages of one or several users.
The script prints messages per second and the CPU time per message of the servers and of the database. The rows stay in
the schema that the URL names, so use a dedicated schema (`?search_path=…`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, cycle

import child_process
import grpc
from bench_log_engines import find_postmaster_pid, measure_cpu_s_with_descendants
from distant_postgres import run_delayed_postgres

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m

USERS = 1000
_METHOD = "/nomemory.v1.IngestService/WriteMessages"
_CONTENT = "We talked about the trip to Kochi, and that 我不吃辣 still holds; the hotel was cheaper, number {}."


@contextmanager
def running_server(url: str) -> Iterator[tuple[int, str]]:
    """Run a server on the database; yield its process id and its address."""
    with tempfile.TemporaryDirectory() as data:
        environment = {
            **os.environ,
            "NOMEMORY_DATA": data,
            "NOMEMORY_LISTEN": "127.0.0.1:0",
            "NOMEMORY_DATABASE_URL": url,
        }
        environment |= {"NOMEMORY_EMBEDDER": "none", "NOMEMORY_LOG_LEVEL": "error", "NOMEMORY_AUDIT_LOG": "false"}
        server = child_process.start_program(child_process.NOMEMORY, "serve", environment=environment)
        try:
            assert server.stdout is not None  # noqa: S101
            address = re.search(r"\S+:[0-9]+", server.stdout.readline())
            assert address is not None  # noqa: S101
            yield server.pid, address.group()
        finally:
            server.terminate()
            server.wait()


def build_requests(messages: int, batch: int, users_of_batch: int, numbers: Iterator[int]) -> list[bytes]:
    """Return serialized write requests, which are built before the measurement starts."""
    batches = list[bytes]()
    users = cycle(range(USERS))
    while len(batches) * batch < messages:
        batch_users = [f"user-{next(users)}" for _ in range(users_of_batch)]
        request = i.WriteMessagesRequest()
        for index in range(batch):
            n = next(numbers)
            user_id = batch_users[index % users_of_batch]
            message = m.ChatMessage(user_id=user_id, role=m.ROLE_USER, content=_CONTENT.format(n))
            message.ts.FromSeconds(1_700_000_000 + n)
            request.messages.append(message)
        batches.append(request.SerializeToString())
    return batches


async def send_batches(addresses: Sequence[str], batches: Sequence[bytes], concurrency: int) -> float:
    """Send the batches with `concurrency` callers per server; return the elapsed seconds."""
    remaining = iter(batches)
    channels = [grpc.aio.insecure_channel(address) for address in addresses]
    for channel in channels:
        await channel.channel_ready()

    async def send_requests(channel: grpc.aio.Channel) -> None:
        write: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)
        for batch in remaining:
            await write(batch)

    began = time.perf_counter()
    await asyncio.gather(*(send_requests(channel) for channel in channels for _ in range(concurrency)))
    took_s = time.perf_counter() - began
    for channel in channels:
        await channel.close()
    return took_s


async def print_measurement(arguments: argparse.Namespace, servers: int) -> None:
    """Print throughput and CPU time per message for each combination of batch size and users per batch."""
    database, numbers = await find_postmaster_pid(arguments.url), count()
    with ExitStack() as stack:
        url = arguments.url
        if arguments.round_trip_ms:
            url = stack.enter_context(run_delayed_postgres(url, arguments.round_trip_ms))
        running = [stack.enter_context(running_server(url)) for _ in range(servers)]
        processes, addresses = zip(*running, strict=True)
        await send_batches(
            addresses, build_requests(200, 10, 1, numbers), arguments.concurrency
        )  # warm-up: the servers prepare their SQL statements
        for batch, users in zip(arguments.batches[::2], arguments.batches[1::2], strict=True):
            sent = build_requests(arguments.messages if batch > 1 else arguments.messages // 5, batch, users, numbers)
            before = sum(map(measure_cpu_s_with_descendants, processes)), measure_cpu_s_with_descendants(database)
            took_s = await send_batches(addresses, sent, arguments.concurrency)
            spent = (
                sum(map(measure_cpu_s_with_descendants, processes)) - before[0],
                measure_cpu_s_with_descendants(database) - before[1],
            )
            messages = len(sent) * batch
            server_cpu, database_cpu = (f"{1000 * seconds / messages:6.3f} ms" for seconds in spent)
            shape = f"{servers} servers, {batch:3} messages of {users:3} users"
            rate = f"{messages / took_s:7.0f} messages/s"
            print(f"{shape}  {rate}  servers {server_cpu}  database {database_cpu}", flush=True)


async def main() -> None:
    """Run the benchmark for each number of servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=16, help="callers per server")
    parser.add_argument(
        "--round-trip-ms", type=float, default=0.0, help="simulated round trip to the database in milliseconds"
    )
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--batches",
        type=int,
        nargs="+",
        default=[1, 1, 10, 1, 100, 1, 100, 100],
        help="pairs: messages and users per call",
    )
    arguments = parser.parse_args()
    for servers in arguments.servers:
        await print_measurement(arguments, servers)


if __name__ == "__main__":
    asyncio.run(main())
