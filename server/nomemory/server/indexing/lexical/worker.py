"""Entry point of the process that runs the lexical indexer.

The server starts this module with `python -m`, and passes the file descriptor of the pipe as the argument.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from nomemory.server.indexing.lexical.indexer import LexicalIndexer
from nomemory.server.indexing.lexical.messages import EXPECTED_FAILURES, EraseDeleted, get_failure_name
from nomemory.server.runtime.processes.ipc_worker import WorkerPipe

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_NICENESS = 5
"""The niceness of the process, so that writes and reads of the server have priority."""


def main(descriptor: int) -> None:
    """Follow the message log until the other end of the pipe is closed, then commit the current batch."""
    os.nice(_NICENESS)
    pipe = WorkerPipe(descriptor)
    try:
        pipe.report_ready()
        first_call = pipe.receive_call()
    except (EOFError, ConnectionError):
        return
    pending_calls: list[int] = []
    indexer = LexicalIndexer(
        first_call.request,
        threading.Event(),
        partial(_send_checkpoint, pipe),
        partial(_reply_to_erasure_calls, pipe, pending_calls),
    )
    thread = threading.Thread(target=_run_indexer, args=(indexer, first_call.call_id, pipe), name="lexical-indexer")
    thread.start()
    with suppress(EOFError, ConnectionError):
        while True:
            for call in pipe.receive_calls(wait=True):
                if isinstance(call.request, EraseDeleted):
                    pending_calls.append(call.call_id)
                    indexer.erase_deleted()
                else:
                    indexer.wake()
    indexer.stop()
    thread.join()


def _send_checkpoint(pipe: WorkerPipe, applied: int) -> None:
    with suppress(ConnectionError):
        pipe.notify(applied)


def _reply_to_erasure_calls(pipe: WorkerPipe, pending_calls: list[int]) -> None:
    with suppress(ConnectionError):
        while pending_calls:
            pipe.reply(pending_calls.pop(), None)


def _run_indexer(indexer: LexicalIndexer, call_id: int, pipe: WorkerPipe) -> None:
    """Run the indexer; an expected error fails the `FollowLog` call, and any other error ends the process."""
    try:
        indexer.run()
    except EXPECTED_FAILURES as error:
        # The text of the error may quote a message, so only its type and stack frames are logged.
        frames = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        _open_log().error("the indexer failed", kind=type(error).__name__, frames=frames[-6:])
        with suppress(ConnectionError):
            pipe.reply_error(call_id, get_failure_name(error))
    except BaseException:
        _open_log()  # which then contains the uncaught exception
        pipe.close()
        raise


def _open_log() -> FilteringBoundLogger:
    """Configure logging, and return a logger.

    The imports are here because they take a quarter of the start of this process, which logs only failures.
    """
    from nomemory.server.runtime.logs import configure_logs  # noqa: PLC0415
    from nomemory.server.runtime.structured_logs import get_logger  # noqa: PLC0415

    configure_logs("error")
    logger: FilteringBoundLogger = get_logger("lexical")
    return logger


if __name__ == "__main__":
    main(int(sys.argv[1]))
