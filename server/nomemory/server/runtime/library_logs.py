"""Logging of warnings, library log records and uncaught exceptions, without their texts.

The texts may contain message content. Therefore the log contains the exception class and the source location, and
contains the text only at the level `debug`.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from typing import Final

from nomemory.server.runtime.stderr import report_crashes
from nomemory.server.runtime.structured_logs import get_logger

_FRAMES: Final = 8


_log = get_logger("process")


def log_interpreter_messages() -> None:
    """Log warnings and uncaught exceptions, which Python would otherwise write to stderr.

    A warning becomes a log record of the logger `py.warnings`.
    """
    report_crashes()
    logging.captureWarnings(capture=True)
    logging.root.addHandler(_TextRemovingHandler(logging.WARNING))
    sys.excepthook = lambda _kind, error, _trace: _log_exception("uncaught exception", error)
    sys.unraisablehook = lambda unraisable: _log_exception("unraisable exception", unraisable.exc_value)
    threading.excepthook = lambda args: _log_exception("uncaught exception in thread", args.exc_value)


class _TextRemovingHandler(logging.Handler):
    """A handler that logs the records of libraries without their texts."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the logger, class and location of a record, but not its text."""
        kind = record.exc_info[0] if record.exc_info else None
        location = f"{record.filename}:{record.lineno}"
        level = logging.getLevelName(record.levelno).lower()
        _log.warning(
            "library log record",
            library=record.name,
            severity=level,
            location=location,
            kind=kind.__name__ if kind else None,
        )
        _log.debug("library log text", library=record.name, text=record.getMessage(), exc_info=record.exc_info)


def _log_exception(event: str, error: BaseException | None) -> None:
    trace = traceback.extract_tb(error.__traceback__) if error else []
    frames = [f"{frame.name} {frame.filename}:{frame.lineno}" for frame in trace]
    _log.error(event, kind=type(error).__name__, frames=frames[-_FRAMES:])
    _log.debug(f"{event}: details", exc_info=error)
