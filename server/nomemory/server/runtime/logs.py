"""Logs: one JSON object a line, on standard error; on a terminal a readable line.

Above `debug` they never hold content, keys or query text.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson

from nomemory.server.runtime.library_logs import log_interpreter_messages
from nomemory.server.runtime.stderr import log_descriptor, log_stream
from nomemory.server.runtime.structured_logs import structlog
from nomemory.spans.span import trace_fields

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger


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
        log_interpreter_messages()


def _line_for_people(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    said, level = str(event.pop("event")), str(event.pop("level"))
    del event["timestamp"]
    facts = ", ".join(f"{name} {value}" for name, value in event.items())
    line = f"{level}: {said}{facts and f' ({facts})'}"
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in line).encode(errors="replace")


def _add_trace_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.update(trace_fields())
    return event
