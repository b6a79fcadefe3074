"""An operator's yes to a log that has lost changes."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.identity import LogPosition
from nomemory.server.log.record import write_record
from nomemory.server.log.sqlite_schema import begin_epoch, open_for_writing


def accept_loss(directory: DataDirectory) -> LogPosition:
    """Begin a new epoch of the log as it is, or a new log where there is none; indexes are built anew from it.

    Raises:
        DataDirectoryBusyError: a server uses the directory.
        LogUnusableError, LogVersionError: the log cannot be used.
        OSError: the record cannot be written.
    """
    with ExitStack() as stack:
        stack.callback(os.close, directory.lock())
        log = begin_epoch(stack.enter_context(closing(open_for_writing(directory.log))))
        write_record(directory.record, log)
    return log
