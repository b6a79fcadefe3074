"""Standard error of a server: JSON lines and nothing else, whoever writes there, in all of its processes.

Our own lines go straight to where standard error led at the start. In its place is a pipe to `stderr_lines.py`, which
turns whatever else is written into such lines. Further processes inherit both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

from nomemory.server import stderr_lines

_STDERR: Final = 2
_VARIABLE: Final = "NOMEMORY_LOG_DESCRIPTOR"
"""Tells a further process of a server which descriptor its log goes to. No setting."""
_LAST_WORDS_S: Final = 5.0


class _Log:
    """Where the lines of this process's log go."""

    descriptor: int | None = None


@contextmanager
def as_json_lines(level: str) -> Iterator[None]:
    """Redirect standard error until the context is left. A second time inside of it changes nothing.

    Args:
        level: of the log; only with `debug` are the words of others shown.

    Raises:
        OSError: the system refuses.
    """
    if _Log.descriptor is not None:
        yield
        return
    if level != "debug":
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its words hold what strangers send
    original = os.dup(_STDERR)
    process = _redirected_to(original, whole=level == "debug")
    _Log.descriptor = original
    try:
        yield
    finally:
        _Log.descriptor = None
        _flush()
        os.dup2(original, _STDERR)  # `original` stays open: loggers are kept
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LAST_WORDS_S)


def log_stream() -> BinaryIO:
    """Return where this process's log goes."""
    descriptor = log_descriptor()
    return sys.stderr.buffer if descriptor is None else os.fdopen(descriptor, "wb", closefd=False)


def log_descriptor() -> int | None:
    """Return the descriptor of the log; None where standard error is not redirected."""
    if _Log.descriptor is not None:
        return _Log.descriptor
    inherited = os.environ.get(_VARIABLE, "")
    return int(inherited) if inherited.isdecimal() else None


def inherited() -> Mapping[str, str]:
    """Return what a further process needs in its environment, beside the descriptor, to log as this one does."""
    descriptor = log_descriptor()
    return {} if descriptor is None else {_VARIABLE: str(descriptor), "PYTHONFAULTHANDLER": "1"}


def _redirected_to(original: int, *, whole: bool) -> subprocess.Popen[bytes]:
    """Put a pipe in the place of standard error. A session of its own keeps the terminal's signals from its reader."""
    reading, writing = os.pipe()
    command = [sys.executable, "-I", "-S", stderr_lines.__file__, *(["--whole"] if whole else [])]
    try:
        process = subprocess.Popen(  # noqa: S603 - a command of our own
            command, stdin=reading, stdout=original, stderr=subprocess.DEVNULL, start_new_session=True, env={}
        )
        _flush()
        os.dup2(writing, _STDERR)
    finally:
        os.close(reading)
        os.close(writing)
    return process


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
