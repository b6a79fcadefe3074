"""Log what the interpreter and libraries report: warnings, log records, and uncaught errors.

Their text may quote a message, so the kind and the place are logged; the level `debug` adds the rest.
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
    """Log, from now on, what Python would write to standard error. Warnings are log records of `py.warnings`."""
    report_crashes()
    logging.captureWarnings(capture=True)
    logging.root.addHandler(_Records(logging.WARNING))
    sys.excepthook = lambda _kind, error, _trace: _failed("the process ends by an error", error)
    sys.unraisablehook = lambda found: _failed("an error was ignored", found.exc_value)
    threading.excepthook = lambda found: _failed("a thread has failed", found.exc_value)


class _Records(logging.Handler):
    """Takes the log records of libraries."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one."""
        kind = record.exc_info[0] if record.exc_info else None
        place = f"{record.filename}:{record.lineno}"
        level = logging.getLevelName(record.levelno).lower()
        _log.warning(
            "a library logs", library=record.name, severity=level, place=place, kind=kind.__name__ if kind else None
        )
        _log.debug("a library logs, in full", library=record.name, text=record.getMessage(), exc_info=record.exc_info)


def _failed(event: str, error: BaseException | None) -> None:
    trace = traceback.extract_tb(error.__traceback__) if error else []
    frames = [f"{frame.name} {frame.filename}:{frame.lineno}" for frame in trace]
    _log.error(event, kind=type(error).__name__, frames=frames[-_FRAMES:])
    _log.debug(f"{event}, in full", exc_info=error)
