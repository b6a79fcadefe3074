"""Logging to stderr: one JSON object per line, or plain text on a terminal.

At levels above `debug`, records never contain message content, keys or query text.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson

from nomemory.server.runtime.library_logs import log_interpreter_messages
from nomemory.server.runtime.stderr import get_log_descriptor, open_log_stream
from nomemory.server.runtime.structured_logs import structlog
from nomemory.spans.span import get_trace_fields

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger


def configure_logs(level: str) -> None:
    """Configure logging to stderr, at a minimum level.

    The log of a standalone server also contains warnings and uncaught exceptions of the interpreter.
    """
    stream = open_log_stream()
    structlog.configure(
        processors=[
            _add_trace_fields,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _render_text if stream.isatty() else structlog.processors.JSONRenderer(orjson.dumps),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.BytesLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    if get_log_descriptor() is not None:
        log_interpreter_messages()


def _render_text(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    message, level = str(event.pop("event")), str(event.pop("level"))
    del event["timestamp"]
    fields = ", ".join(f"{name} {value}" for name, value in event.items())
    line = f"{level}: {message}{fields and f' ({fields})'}"
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in line).encode(errors="replace")


def _add_trace_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.update(get_trace_fields())
    return event
