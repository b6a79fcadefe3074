"""Logs: one JSON object a line, on standard error; on a terminal a line for people.

Above `debug` they never hold content, keys or query text.

What the interpreter and libraries report in Python becomes such lines, too: warnings, log records, errors that nobody
caught. Their words may quote a message: kinds and places are logged, and with the level `debug` the rest.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Final

import orjson

from nomemory.server.runtime.stderr import log_descriptor, log_stream, report_crashes
from nomemory.server.runtime.structured_logs import get_logger, structlog
from nomemory.spans.span import trace_fields

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

_FRAMES: Final = 8
_log = get_logger("process")


def configure_logs(level: str) -> None:
    """Send the process's logs to standard error, from a level on.

    In a server that runs by itself the interpreter's own messages become lines of the log, too.
    """
    stream = log_stream()
    structlog.configure(
        processors=[
            _add_trace_fields,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _line_for_people if stream.isatty() else structlog.processors.JSONRenderer(orjson.dumps),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.BytesLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    if log_descriptor() is not None:
        _log_interpreter_messages()


def _line_for_people(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    said, level = str(event.pop("event")), str(event.pop("level"))
    del event["timestamp"]
    facts = ", ".join(f"{name} {value}" for name, value in event.items())
    line = f"{level}: {said}{facts and f' ({facts})'}"
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in line).encode(errors="replace")


def _add_trace_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.update(trace_fields())
    return event


def _log_interpreter_messages() -> None:
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
