"""Standard error of a server: lines of the log, and of a crash where it happened. Nothing else reaches it.

Our own lines go to where standard error led at the start. What libraries, the interpreter and panics write there may
quote a message or come from a stranger: it goes nowhere, and is only shown with the level `debug`. Further processes
inherit both.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, Final

_STDERR: Final = 2
_VARIABLE: Final = "NOMEMORY_LOG_DESCRIPTOR"
"""Tells a further process of a server which descriptor its log goes to. No setting."""


class _Log:
    """Where the lines of this process's log go."""

    descriptor: int | None = None


@contextmanager
def reserve_stderr_for_logs(level: str) -> Iterator[None]:
    """Keep everything but the log from standard error until the context is left. Within another one it does nothing.

    Args:
        level: of the log; with `debug` the words of others are shown.
    """
    if _Log.descriptor is not None:
        yield
        return
    _Log.descriptor = original = os.dup(_STDERR)
    if level != "debug":
        _flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDERR)
        os.close(nowhere)
    try:
        yield
    finally:
        _Log.descriptor = None
        _flush()
        os.dup2(original, _STDERR)  # `original` stays open: loggers are kept


def report_crashes() -> None:
    """Write to the log's descriptor where this process is when it crashes: files, functions and lines, no values."""
    faulthandler.enable(_STDERR if (descriptor := log_descriptor()) is None else descriptor)


def log_stream() -> BinaryIO:
    """Return where this process's log goes."""
    descriptor = log_descriptor()
    return sys.stderr.buffer if descriptor is None else os.fdopen(descriptor, "wb", closefd=False)


def log_descriptor() -> int | None:
    """Return the descriptor of the log; None where it is standard error itself."""
    if _Log.descriptor is not None:
        return _Log.descriptor
    inherited = os.environ.get(_VARIABLE, "")
    return int(inherited) if inherited.isdecimal() else None


def log_environment() -> Mapping[str, str]:
    """Return what a further process needs in its environment, beside the descriptor, to log as this one does."""
    descriptor = log_descriptor()
    return {} if descriptor is None else {_VARIABLE: str(descriptor)}


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
