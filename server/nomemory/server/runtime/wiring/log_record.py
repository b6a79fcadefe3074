"""Keeps the record of how far the message log was, from which the next start sees a loss."""

from __future__ import annotations

from contextlib import AsyncExitStack, closing
from pathlib import Path

from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.runtime.wiring.log_store import LogStore
from nomemory.server.store.log_record import write_record
from nomemory.server.store.position import LogPosition

_log = get_logger("server")


def record_position(store: LogStore, path: Path, stack: AsyncExitStack) -> LogPosition:
    """Write the log's position to the record now and when the stack is left; return the position of now.

    Raises:
        OSError: the record cannot be written.
    """
    position = _position(store)
    write_record(path, position)
    stack.callback(_record_last_position, store, path)
    return position


def _record_last_position(store: LogStore, path: Path) -> None:
    try:
        write_record(path, _position(store))
    except OSError as error:
        _log.warning("it could not be recorded how far the log is", cause=error.strerror)


def _position(store: LogStore) -> LogPosition:
    with closing(store.feed()()) as feed:
        return feed.position()
