"""Convert Tantivy panics to ordinary exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_PANIC = ("pyo3_runtime", "PanicException")


class EnginePanicError(Exception):
    """The engine panicked during a call. The call may have been executed partially."""


@contextmanager
def translate_panics() -> Iterator[None]:
    """Convert panics of the engine to EnginePanicError. Other exceptions pass unchanged."""
    try:
        yield
    except BaseException as error:
        if (type(error).__module__, type(error).__name__) != _PANIC:
            raise
        raise EnginePanicError from error
