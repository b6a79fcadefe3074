"""The process that follows the log for the lexical index.

`python -m … DESCRIPTOR`
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial

from nomemory.server.indexing.lexical.indexer import LexicalIndexer
from nomemory.server.indexing.lexical.messages import EXPECTED_FAILURES, EraseDeleted, failure_name
from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.processes.ipc_worker import WorkerPipe
from nomemory.server.runtime.structured_logs import get_logger

_NICENESS = 5
"""Where there are too few cores, acknowledgements and reads go first."""

_log = get_logger("lexical")


def main(descriptor: int) -> None:
    """Follow the log until the other end of the pipe is gone; what is in hand is committed."""
    os.nice(_NICENESS)
    configure_logs("error")
    pipe = WorkerPipe(descriptor)
    try:
        pipe.ready()
        begun = pipe.receive_one()
    except (EOFError, ConnectionError):
        return
    wiping: list[int] = []
    indexer = LexicalIndexer(begun.request, threading.Event(), partial(_tell, pipe), partial(_answer, pipe, wiping))
    thread = threading.Thread(target=_index, args=(indexer, begun.call_id, pipe), name="lexical-indexer")
    thread.start()
    with suppress(EOFError, ConnectionError):
        while True:
            for call in pipe.receive(wait=True):
                if isinstance(call.request, EraseDeleted):
                    wiping.append(call.call_id)
                    indexer.erase_deleted()
                else:
                    indexer.wake()
    indexer.stop()
    thread.join()


def _tell(pipe: WorkerPipe, applied: int) -> None:
    """Tell how far the index is."""
    with suppress(ConnectionError):
        pipe.notify(applied)


def _answer(pipe: WorkerPipe, wiping: list[int]) -> None:
    """Answer the calls that wait until what was removed is wiped out."""
    with suppress(ConnectionError):
        while wiping:
            pipe.reply(wiping.pop(), None)


def _index(indexer: LexicalIndexer, call_id: int, pipe: WorkerPipe) -> None:
    """Run the indexer. An expected error ends the call, an unexpected one the process: it hangs up."""
    try:
        indexer.run()
    except EXPECTED_FAILURES as error:
        # The error's own words may quote a message: only its kind and its place are logged.
        frames = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        _log.error("the indexer failed", kind=type(error).__name__, frames=frames[-6:])
        with suppress(ConnectionError):
            pipe.fail(call_id, failure_name(error))
    except BaseException:
        pipe.close()
        raise


if __name__ == "__main__":
    main(int(sys.argv[1]))
