"""Logs: one JSON object a line, on standard error. Above `debug` they never hold content, keys or query text."""

from __future__ import annotations

import logging

import orjson
import structlog
from structlog.typing import EventDict, WrappedLogger

from nomemory.server.interpreter_messages import log_interpreter_messages
from nomemory.server.standard_error import log_descriptor, log_stream


def configure_logs(level: str, worker: int | None = None) -> None:
    """Send the process's logs to standard error, from a level on; `worker` says which of several processes it is.

    In a server that runs by itself the interpreter's own messages become lines of the log, too.
    """

    def name_worker(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["worker"] = worker
        return event

    structlog.configure(
        processors=[
            *([] if worker is None else [name_worker]),
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
