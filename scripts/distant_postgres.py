"""Proxy that adds network latency to a local PostgreSQL.

`python scripts/distant_postgres.py SOCKET_DIRECTORY ROUND_TRIP_MS` prints the directory of the proxy's socket and runs
until it is terminated.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import child_process
from usage import show_help

_SOCKET = ".s.PGSQL.5432"
_CHUNK = 1 << 16


@contextmanager
def run_delayed_postgres(url: str, round_trip_ms: float) -> Iterator[str]:
    """Yield a URL that reaches a database through the proxy; `url` must name the database's socket directory."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    proxy = child_process.start_program(__file__, query["host"][0], str(round_trip_ms))
    try:
        assert proxy.stdout is not None  # noqa: S101
        query["host"] = [proxy.stdout.readline().strip()]
        yield urlunsplit(parts._replace(query=urlencode(query, doseq=True)))
    finally:
        proxy.terminate()
        proxy.wait()


async def serve(socket_directory: Path, delay_s: float) -> None:
    """Forward connections to the socket in a directory, delaying each direction by `delay_s` seconds."""

    async def handle_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_unix_connection(socket_directory / _SOCKET)
        await asyncio.gather(_forward(reader, upstream_writer, delay_s), _forward(upstream_reader, writer, delay_s))

    with tempfile.TemporaryDirectory() as directory:
        async with await asyncio.start_unix_server(handle_client, Path(directory) / _SOCKET) as server:
            print(directory, flush=True)
            await server.serve_forever()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    later = partial(asyncio.get_running_loop().call_later, delay_s)
    while data := await reader.read(_CHUNK):
        later(writer.write, data)
    later(writer.close)


if __name__ == "__main__":
    show_help(__doc__)
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2]) / 2000))
