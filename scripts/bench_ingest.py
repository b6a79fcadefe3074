"""How fast do servers over one PostgreSQL take messages? `python scripts/bench_ingest.py --url postgresql://…`.

Starts servers over the database, which has to be on this machine, and has many callers write to them, each call a batch
of one user or of many. Prints messages per second and the CPU time of a message: the servers' and the database's.
Everything is left in the schema that the URL names: name one of its own (`?search_path=…`).
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
from bench_log_engines import cpu_s, postmaster
from distant_postgres import distant

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m

USERS = 1000
_METHOD = "/nomemory.v1.IngestService/WriteMessages"
_SAID = "We talked about the trip to Kochi, and that 我不吃辣 still holds; the hotel was cheaper, number {}."


@contextmanager
def serving(url: str) -> Iterator[tuple[int, str]]:
    """Run a server over the database; return its process and its address."""
    with tempfile.TemporaryDirectory() as data:
        environment = {
            **os.environ,
            "NOMEMORY_DATA": data,
            "NOMEMORY_LISTEN": "127.0.0.1:0",
            "NOMEMORY_DATABASE_URL": url,
        }
        environment |= {"NOMEMORY_EMBEDDER": "none", "NOMEMORY_LOG_LEVEL": "error", "NOMEMORY_AUDIT_LOG": "false"}
        server = child_process.start(child_process.NOMEMORY, "serve", environment=environment)
        try:
            assert server.stdout is not None  # noqa: S101
            found = re.search(r"\S+:[0-9]+", server.stdout.readline())
            assert found is not None  # noqa: S101
            yield server.pid, found.group()
        finally:
            server.terminate()
            server.wait()


def requests(messages: int, batch: int, users_of_batch: int, numbers: Iterator[int]) -> list[bytes]:
    """Return batches as they go over the wire, so that to make them is no part of what is measured."""
    made = list[bytes]()
    users = cycle(range(USERS))
    while len(made) * batch < messages:
        some = [f"user-{next(users)}" for _ in range(users_of_batch)]
        request = i.WriteMessagesRequest()
        for place in range(batch):
            n = next(numbers)
            one = m.ChatMessage(user_id=some[place % users_of_batch], role=m.ROLE_USER, content=_SAID.format(n))
            one.ts.FromSeconds(1_700_000_000 + n)
            request.messages.append(one)
        made.append(request.SerializeToString())
    return made


async def send(addresses: Sequence[str], batches: Sequence[bytes], at_once: int) -> float:
    """Send the batches, so many at once to each server; return the seconds that it took."""
    left = iter(batches)
    channels = [grpc.aio.insecure_channel(address) for address in addresses]
    for channel in channels:
        await channel.channel_ready()

    async def caller(channel: grpc.aio.Channel) -> None:
        write: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)
        for batch in left:
            await write(batch)

    began = time.perf_counter()
    await asyncio.gather(*(caller(channel) for channel in channels for _ in range(at_once)))
    took_s = time.perf_counter() - began
    for channel in channels:
        await channel.close()
    return took_s


async def measure(arguments: argparse.Namespace, servers: int) -> None:
    """Print what each kind of batch costs with so many servers."""
    database, numbers = await postmaster(arguments.url), count()
    with ExitStack() as stack:
        url = arguments.url
        if arguments.round_trip_ms:
            url = stack.enter_context(distant(url, arguments.round_trip_ms))
        opened = [stack.enter_context(serving(url)) for _ in range(servers)]
        processes, addresses = zip(*opened, strict=True)
        await send(addresses, requests(200, 10, 1, numbers), arguments.at_once)  # connections learn their statements
        for batch, users in zip(arguments.batches[::2], arguments.batches[1::2], strict=True):
            sent = requests(arguments.messages if batch > 1 else arguments.messages // 5, batch, users, numbers)
            before = sum(map(cpu_s, processes)), cpu_s(database)
            took_s = await send(addresses, sent, arguments.at_once)
            spent = sum(map(cpu_s, processes)) - before[0], cpu_s(database) - before[1]
            all_messages = len(sent) * batch
            here, there = (f"{1000 * seconds / all_messages:6.3f} ms" for seconds in spent)
            what = f"{servers} servers, {batch:3} messages of {users:3} users"
            print(f"{what}  {all_messages / took_s:7.0f} messages/s  servers {here}  database {there}", flush=True)


async def main() -> None:
    """Measure each number of servers in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--round-trip-ms", type=float, default=0.0, help="time to the database and back")
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[1, 1, 10, 1, 100, 1, 100, 100], help="messages and users of a call"
    )
    arguments = parser.parse_args()
    for servers in arguments.servers:
        await measure(arguments, servers)


if __name__ == "__main__":
    asyncio.run(main())
