"""The process that follows the log for the lexical index.

`python -m … DESCRIPTOR`
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from contextlib import suppress

from nomemory.server.lexical.tantivy.indexer import LexicalIndexer
from nomemory.server.lexical.tantivy.indexer_calls import (
    EXPECTED_FAILURES,
    AwaitCommit,
    Follow,
    IndexerCall,
    ReadLog,
    WipeRemoved,
    failure_name,
)
from nomemory.server.logs import configure_logs
from nomemory.server.processes.worker_pipe import WorkerPipe
from nomemory.server.structured_logs import get_logger

_NICENESS = 5
"""Where there are too few cores, acknowledgements and reads go first."""

_log = get_logger("lexical")


class ProgressReplies:
    """Answers `AwaitCommit` and `WipeRemoved`: the indexer's thread notes how far it is, the pipe's takes the calls."""

    def __init__(self, pipe: WorkerPipe) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._applied: int | None = None
        self._failure = ""
        self._waiting: tuple[int, int | None] | None = None
        self._wiping: list[int] = []

    def note(self, applied: int) -> None:
        """Record the sequence that the index has reached."""
        with self._lock:
            self._applied = applied
            self._reply()

    def fail(self, failure: str) -> None:
        """Record that the index has failed, and the kind of error."""
        with self._lock:
            self._failure = failure
            self._reply()
            with suppress(ConnectionError):
                for call_id in self._wiping:
                    self._pipe.fail(call_id, failure)

    def wait(self, call_id: int, known: int | None) -> None:
        """Take a call, to be answered as soon as there is more than is known."""
        with self._lock:
            self._waiting = (call_id, known)
            self._reply()

    def wait_for_wiping(self, call_id: int) -> None:
        """Take a call, to be answered when what is removed by now is wiped out."""
        with self._lock:
            self._wiping.append(call_id)

    def note_wiped(self) -> None:
        """Record that what was removed is wiped out."""
        with self._lock, suppress(ConnectionError):
            while self._wiping:
                self._pipe.reply(self._wiping.pop(), None)

    def _reply(self) -> None:
        if self._waiting is None:
            return
        call_id, known = self._waiting
        with suppress(ConnectionError):
            if self._failure:
                self._pipe.fail(call_id, self._failure)
            elif self._applied != known:
                self._pipe.reply(call_id, self._applied)
            else:
                return
        self._waiting = None


def main(descriptor: int) -> None:
    """Follow the log until the other end of the pipe is gone; what is in hand is committed."""
    os.nice(_NICENESS)
    configure_logs("error")
    pipe = WorkerPipe(descriptor)
    try:
        pipe.ready()
        work: Follow = pipe.receive_one().request
    except (EOFError, ConnectionError):
        return
    replies = ProgressReplies(pipe)
    indexer = LexicalIndexer(work, threading.Event(), replies.note, replies.note_wiped)
    thread = threading.Thread(target=_index, args=(indexer, replies, pipe), name="lexical-indexer")
    thread.start()
    with suppress(EOFError, ConnectionError):
        while True:
            for call in pipe.receive(wait=True):
                _take(call.call_id, call.request, replies, indexer)
    indexer.stop()
    thread.join()


def _index(indexer: LexicalIndexer, replies: ProgressReplies, pipe: WorkerPipe) -> None:
    """Run the indexer. An unexpected error ends the process: it hangs up."""
    try:
        indexer.run()
    except EXPECTED_FAILURES as error:
        # The error's own words may quote a message: only its kind and its place are logged.
        frames = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        _log.error("the indexer failed", kind=type(error).__name__, frames=frames[-6:])
        replies.fail(failure_name(error))
    except BaseException:
        pipe.close()
        raise


def _take(call_id: int, call: IndexerCall, replies: ProgressReplies, indexer: LexicalIndexer) -> None:
    match call:
        case ReadLog():
            indexer.wake()
        case WipeRemoved():
            replies.wait_for_wiping(call_id)
            indexer.wipe_removed()
        case AwaitCommit(known):
            replies.wait(call_id, known)
        case Follow():
            raise TypeError("Follow is the first call, and comes once")


if __name__ == "__main__":
    main(int(sys.argv[1]))
