"""Any error as a fault that a caller may see."""

from __future__ import annotations

import traceback

from nomemory.server.faults import Fault, Reason
from nomemory.server.structured_logs import structlog

_FRAMES_LOGGED = 8


def fault_of(error: BaseException, log: structlog.stdlib.BoundLogger) -> Fault:
    """Return the fault that a caller may see of an error. An unexpected one is logged, and becomes INTERNAL."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, TimeoutError):
        return Fault(Reason.ERROR_REASON_DEADLINE_EXCEEDED, "the call took longer than its deadline")
    # The error's own words may quote a message: only its kind and its place are logged.
    frames = [f"{frame.name} {frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("unexpected error", kind=type(error).__name__, frames=frames[-_FRAMES_LOGGED:])
    log.debug("unexpected error, in full", exc_info=error)
    return Fault(Reason.ERROR_REASON_INTERNAL, "internal error")
