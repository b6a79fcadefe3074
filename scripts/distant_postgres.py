"""Leads to a PostgreSQL on this machine as if it were on another one: what goes there or comes back takes its time.

`python scripts/distant_postgres.py SOCKET_DIRECTORY ROUND_TRIP_MS` prints the directory of the detour's socket.
It runs until it is ended.
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
def distant(url: str, round_trip_ms: float) -> Iterator[str]:
    """Return a URL that leads to a database by a detour. The given one has to name the directory of its socket."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    detour = child_process.start(__file__, query["host"][0], str(round_trip_ms))
    try:
        assert detour.stdout is not None  # noqa: S101
        query["host"] = [detour.stdout.readline().strip()]
        yield urlunsplit(parts._replace(query=urlencode(query, doseq=True)))
    finally:
        detour.terminate()
        detour.wait()


async def lead(near: Path, delay_s: float) -> None:
    """Serve the detour."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(near / _SOCKET)
        await asyncio.gather(_carry(reader, back, delay_s), _carry(there, writer, delay_s))

    with tempfile.TemporaryDirectory() as directory:
        async with await asyncio.start_unix_server(connected, Path(directory) / _SOCKET) as server:
            print(directory, flush=True)
            await server.serve_forever()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    later = partial(asyncio.get_running_loop().call_later, delay_s)
    while data := await reader.read(_CHUNK):
        later(writer.write, data)
    later(writer.close)


if __name__ == "__main__":
    show_help(__doc__)
    asyncio.run(lead(Path(sys.argv[1]), float(sys.argv[2]) / 2000))
