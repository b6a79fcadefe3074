"""The record of the message log's position, from which the next startup detects lost messages."""

from __future__ import annotations

from contextlib import AsyncExitStack, closing
from pathlib import Path

from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.runtime.wiring.log_store import LogStore
from nomemory.server.store.log_position_file import write_position_file
from nomemory.server.store.position import LogPosition

_log = get_logger("server")


def record_position(store: LogStore, path: Path, stack: AsyncExitStack) -> LogPosition:
    """Write the position of the message log to a file, now and when `stack` exits, and return the current position.

    Raises:
        OSError: the file cannot be written.
    """
    position = _read_position(store)
    write_position_file(path, position)
    stack.callback(_record_last_position, store, path)
    return position


def _record_last_position(store: LogStore, path: Path) -> None:
    try:
        write_position_file(path, _read_position(store))
    except OSError as error:
        _log.warning(
            "cannot write the position of the message log: check the disk of the data directory",
            path=str(path),
            cause=error.strerror,
        )


def _read_position(store: LogStore) -> LogPosition:
    with closing(store.make_feed_opener()()) as feed:
        return feed.read_position()
