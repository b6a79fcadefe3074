"""An operator's yes to a log that has lost changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.identity import LogPosition
from nomemory.server.log.record import write_record


def accept_loss(directory: DataDirectory, begin_epoch: Callable[[], LogPosition]) -> LogPosition:
    """Begin a new epoch of the log as it is, or a new log where there is none; indexes are built anew from it.

    Args:
        directory: the server's.
        begin_epoch: begins it.

    Raises:
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError: the log cannot be used.
        OSError: the record cannot be written.
    """
    with ExitStack() as stack:
        stack.callback(os.close, directory.lock())
        log = begin_epoch()
        write_record(directory.record, log)
    return log
