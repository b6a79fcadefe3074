"""Logs: one JSON object a line, on standard error. Above `debug` they never hold content, keys or query text."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson

from nomemory.server.interpreter_messages import log_interpreter_messages
from nomemory.server.standard_error import log_descriptor, log_stream
from nomemory.server.structured_logs import structlog
from nomemory.spans.span import trace_fields

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

_process_fields: dict[str, int] = {}
"""What every line of this process says of it."""


def process_fields() -> dict[str, int]:
    """Return what every line of this process says of it: its number, where a server has several."""
    return dict(_process_fields)


def configure_logs(level: str, worker: int | None = None) -> None:
    """Send the process's logs to standard error, from a level on; `worker` says which of several processes it is.

    In a server that runs by itself the interpreter's own messages become lines of the log, too.
    """
    _process_fields.clear()
    _process_fields.update({} if worker is None else {"worker": worker})
    structlog.configure(
        processors=[
            _say_where_from,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(orjson.dumps),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.BytesLoggerFactory(file=log_stream()),
        cache_logger_on_first_use=True,
    )
    if log_descriptor() is not None:
        log_interpreter_messages()


def _say_where_from(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.update(_process_fields)
    event.update(trace_fields())
    return event
