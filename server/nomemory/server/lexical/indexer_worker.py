"""The process that follows the log for the lexical index: `python -m … DESCRIPTOR LOG DIRECTORY HEAP CHANGES BYTES`.

It is told to look at the log, or to stop; it says how far it has got, and what kind of error ended it.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import structlog

from nomemory.server.lexical.indexer import LexicalIndexer
from nomemory.server.lexical.panics import EnginePanicError
from nomemory.server.lexical.protocol import IndexUnusableError
from nomemory.server.log.sqlite_feed import SqliteChangeFeed
from nomemory.server.logs import configure_logs

LOOK, STOP = b"look", b"stop"

_NICENESS = 5
"""Where there are too few cores, acknowledgements and reads go first."""

_EXPECTED = (IndexUnusableError, EnginePanicError, OSError, ValueError, sqlite3.Error)

_log = structlog.get_logger("lexical")


def main(descriptor: int, log: Path, directory: Path, *, heap_bytes: int, batch_max: int, batch_bytes: int) -> None:
    """Follow the log until told to stop, or until the other end is gone."""
    os.nice(_NICENESS)
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_IGN)  # a worker lives as long as its pipe
    configure_logs("error")
    wake = threading.Event()
    with Connection(descriptor) as pipe:
        indexer = LexicalIndexer(
            partial(SqliteChangeFeed, log),
            directory,
            heap_bytes=heap_bytes,
            batch_max=batch_max,
            batch_bytes=batch_bytes,
            wake=wake,
            committed=partial(_say, pipe),
        )
        threading.Thread(target=_listen, args=(pipe, indexer, wake), daemon=True).start()
        try:
            indexer.run()
        except _EXPECTED as error:
            # The error's own words may quote a message: only its kind and its place are logged.
            frames = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            _log.error("the indexer failed", kind=type(error).__name__, frames=frames[-6:])
            _say(pipe, next(kind for kind in type(error).__mro__ if kind in _EXPECTED))


def _listen(pipe: Connection, indexer: LexicalIndexer, wake: threading.Event) -> None:
    with suppress(EOFError, ConnectionError):
        while pipe.recv_bytes() == LOOK:
            wake.set()
    indexer.stop()


def _say(pipe: Connection, what: int | type) -> None:
    with suppress(ConnectionError):
        pipe.send(what)


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        Path(sys.argv[2]),
        Path(sys.argv[3]),
        heap_bytes=int(sys.argv[4]),
        batch_max=int(sys.argv[5]),
        batch_bytes=int(sys.argv[6]),
    )
