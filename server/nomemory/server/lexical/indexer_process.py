"""The lexical indexer in a process of its own: analysing texts would hold the interpreter's lock, and reads wait."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from nomemory.server.lexical.indexer_worker import LOOK, STOP
from nomemory.server.processes.worker_process import Launch

_MODULE = "nomemory.server.lexical.indexer_worker"
_EXIT_MAX_S = 20.0


class IndexerLostError(Exception):
    """The indexer's process ended and did not say why."""


class LexicalIndexerProcess:
    """Runs a LexicalIndexer elsewhere; to whoever starts, asks and stops it, it is one.

    The process lives as long as its pipe, so it does not outlive this one. It may die at any time: `run` raises then,
    and when it is called again, another process goes on after the last commit.

    Args:
        log: the log's file.
        directory: where the index lives.
        heap_bytes: memory of the index's writer.
        batch_max: most changes in one commit.
        batch_bytes: size of messages that is enough for one commit.
        wake: set by whoever writes to the log.
    """

    def __init__(
        self, log: Path, directory: Path, *, heap_bytes: int, batch_max: int, batch_bytes: int, wake: threading.Event
    ) -> None:
        arguments = (str(log), str(directory), str(heap_bytes), str(batch_max), str(batch_bytes))
        self._launch = Launch(_MODULE, arguments, logs=True)
        self._wake = wake
        self._stopping = threading.Event()
        self._applied = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def applied(self) -> int:
        """The sequence up to which everything is committed. 0 until the process has opened the index."""
        return self._applied

    @property
    def process_id(self) -> int | None:
        """The process that was started last."""
        return self._process.pid if self._process else None

    def run(self) -> None:
        """Have the log followed until `stop`. Raises what the indexer raised, or IndexerLostError."""
        self._process, socket = self._launch.start()
        with Connection(socket.detach()) as pipe:
            listener = _Listener(pipe, self._note, self._wake)
            listener.start()
            while listener.is_alive() and not self._stopping.is_set():
                self._wake.wait()
                self._wake.clear()
                _tell(pipe, LOOK)
            _tell(pipe, STOP)
            listener.join(_EXIT_MAX_S)
            self._process.kill()
            self._process.wait()
            listener.join()
        if not self._stopping.is_set():
            raise listener.failure

    def stop(self) -> None:
        """End `run` after the change in the process's hands, with a commit. It cannot be started again."""
        self._stopping.set()
        self._wake.set()

    def _note(self, applied: int) -> None:
        self._applied = applied


class _Listener(threading.Thread):
    """Hears what the process says, until it has ended."""

    def __init__(self, pipe: Connection, note: Callable[[int], None], wake: threading.Event) -> None:
        super().__init__(name="lexical-indexer-pipe", daemon=True)
        self.failure: Exception | type[Exception] = IndexerLostError()
        self._pipe = pipe
        self._note = note
        self._wake = wake

    def run(self) -> None:
        try:
            with suppress(EOFError, ConnectionError):
                while True:
                    self._hear(self._pipe.recv())
        finally:
            self._wake.set()

    def _hear(self, said: int | type[Exception]) -> None:
        if isinstance(said, int):
            self._note(said)
        else:
            self.failure = said


def _tell(pipe: Connection, word: bytes) -> None:
    """Say something to a process that may have ended."""
    with suppress(ConnectionError):
        pipe.send_bytes(word)
