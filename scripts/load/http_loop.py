"""Run a closed-loop load over HTTP with JSON, like the gRPC load of `closed_loop`.

Requests are serialized in advance and replies are not parsed, so that the client uses little CPU time.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import uvloop
from load.closed_loop import WARM_UP, LoadOutcome, LoadParameters
from load.usage import measure_cpu_s

from nomemory.v1 import query_service_pb2 as pb

_LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)\r\n")


def convert_to_http_request(raw: bytes) -> bytes:
    """Convert a serialized ListMessagesRequest to an HTTP request."""
    request = pb.ListMessagesRequest.FromString(raw)
    path = f"/v1/users/{request.user_id}/messages?pageSize={request.page_size}"
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json\r\n\r\n".encode()


def run_http_loop(load: LoadParameters) -> LoadOutcome:
    """Run a closed-loop load of HTTP requests in this process."""
    return uvloop.run(_run_http_loop(load))


@dataclass(slots=True)
class _HttpConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, request: bytes) -> bytes:
        """Send a serialized HTTP request, and return the body of the response.

        Raises:
            ConnectionError: the status is not 200.
        """
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not head.startswith(b"HTTP/1.1 200 ") or length is None:
            raise ConnectionError(head[:20])
        return await self.reader.readexactly(int(length[1]))


async def _run_http_loop(load: LoadParameters) -> LoadOutcome:
    outcome = LoadOutcome()
    host, _, port = load.target.rpartition(":")
    connections = [_HttpConnection(*await asyncio.open_connection(host, int(port))) for _ in range(load.concurrency)]
    await _run_callers(connections, load, load.seconds * WARM_UP, LoadOutcome())
    server, client, began = measure_cpu_s(load.pids), time.process_time(), time.perf_counter()
    await _run_callers(connections, load, load.seconds, outcome)
    outcome.seconds = time.perf_counter() - began
    outcome.server_cpu_s, outcome.client_cpu_s = measure_cpu_s(load.pids) - server, time.process_time() - client
    for item in connections:
        item.writer.close()
    return outcome


async def _run_callers(
    connections: Sequence[_HttpConnection], load: LoadParameters, seconds: float, outcome: LoadOutcome
) -> None:
    end = time.perf_counter() + seconds
    await asyncio.gather(*(_call_until(end, item, load, first, outcome) for first, item in enumerate(connections)))


async def _call_until(
    end: float, connection: _HttpConnection, load: LoadParameters, turn: int, outcome: LoadOutcome
) -> None:
    while (now := time.perf_counter()) < end:
        answer = await connection.send(load.requests[turn % len(load.requests)])
        turn += load.concurrency
        outcome.waits_ms.append(1000 * (time.perf_counter() - now))
        outcome.bytes_received += len(answer)
