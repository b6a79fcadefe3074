"""Redirection of stderr, which then contains only log records and crash reports.

Libraries, the interpreter and panics may write message content to stderr. The server therefore redirects file
descriptor 2 to /dev/null, unless the log level is `debug`, and writes its log to a duplicate of the original
descriptor. Worker processes inherit file descriptor 2 and the descriptor of the log.
"""

from __future__ import annotations

import faulthandler
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDERR: Final = 2
_VARIABLE: Final = "NOMEMORY_LOG_DESCRIPTOR"
"""Environment variable that passes the log's file descriptor to worker processes. The variable is not a setting."""


class _LogTarget:
    """The file descriptor to which this process writes its log."""

    descriptor: int | None = None


@contextmanager
def reserve_stderr_for_logs(level: str) -> Iterator[None]:
    """Discard everything on stderr except log records until the context exits. A nested context has no effect.

    Args:
        level: the log level; `debug` leaves stderr unchanged.
    """
    if _LogTarget.descriptor is not None:
        yield
        return
    _LogTarget.descriptor = original = os.dup(_STDERR)
    if level != "debug":
        _flush_streams()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, _STDERR)
        os.close(devnull)
    try:
        yield
    finally:
        _LogTarget.descriptor = None
        _flush_streams()
        os.dup2(original, _STDERR)  # `original` stays open because cached loggers use it


def report_crashes() -> None:
    """Make this process write a stack trace without variable values to the log if it crashes."""
    faulthandler.enable(_STDERR if (descriptor := get_log_descriptor()) is None else descriptor)


class LogStream(io.FileIO):
    """The stream to which this process writes its log.

    Records that cannot be written are dropped, so that a full disk or a closed pipe does not fail a call whose changes
    have been committed.
    """

    def write(self, record: ReadableBuffer) -> int:
        """Write a record; return its length, even if the record is dropped."""
        remaining = memoryview(record).cast("B")
        with suppress(OSError):
            while remaining and (written := super().write(remaining)):
                remaining = remaining[written:]
        return memoryview(record).nbytes


def open_log_stream() -> BinaryIO:
    """Return the stream to which this process writes its log."""
    descriptor = get_log_descriptor()
    return sys.stderr.buffer if descriptor is None else LogStream(descriptor, "wb", closefd=False)


def get_log_descriptor() -> int | None:
    """Return the file descriptor of the log, or None if the log is written to stderr."""
    if _LogTarget.descriptor is not None:
        return _LogTarget.descriptor
    descriptor = os.environ.get(_VARIABLE, "")
    return int(descriptor) if descriptor.isdecimal() else None


def build_log_environment() -> Mapping[str, str]:
    """Return the environment variables for a worker process that inherits the log's file descriptor."""
    descriptor = get_log_descriptor()
    return {} if descriptor is None else {_VARIABLE: str(descriptor)}


def _flush_streams() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
