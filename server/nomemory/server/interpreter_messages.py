"""What the interpreter and libraries report in Python: warnings, log records, errors that nobody caught, as our lines.

Their words may quote a message: what is logged are kinds and places, and with the level `debug` the rest.
"""

from __future__ import annotations

import faulthandler
import logging
import sys
import threading
import traceback
import warnings
from types import TracebackType
from typing import Final, TextIO

from nomemory.server.structured_logs import get_logger

_FRAMES: Final = 8
_log = get_logger("process")


def log_interpreter_messages() -> None:
    """Log, from now on, what would be written to standard error. Crashes are reported there by `faulthandler`."""
    warnings.showwarning = _warned
    sys.excepthook = _uncaught
    sys.unraisablehook = lambda found: _failed("an error was ignored", found.exc_value)
    threading.excepthook = lambda found: _failed("a thread has failed", found.exc_value)
    logging.root.addHandler(_Records(logging.WARNING))
    faulthandler.enable(file=2)


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


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001 - the signature of warnings.showwarning
    line: str | None = None,  # noqa: ARG001 - the same
) -> None:
    _log.warning("a warning", kind=category.__name__, place=f"{filename}:{lineno}")
    _log.debug("a warning, in full", text=str(message))


def _uncaught(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    _failed("the process ends by an error", error)


def _failed(event: str, error: BaseException | None) -> None:
    trace = traceback.extract_tb(error.__traceback__) if error else []
    frames = [f"{frame.name} {frame.filename}:{frame.lineno}" for frame in trace]
    _log.error(event, kind=type(error).__name__, frames=frames[-_FRAMES:])
    _log.debug(f"{event}, in full", exc_info=error)
