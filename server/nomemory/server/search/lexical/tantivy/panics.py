"""Panics of the engine as ordinary exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_PANIC = ("pyo3_runtime", "PanicException")


class EnginePanicError(Exception):
    """The engine panicked in the middle of a call. What it was doing may be incomplete."""


@contextmanager
def ordinary_panics() -> Iterator[None]:
    """Raise panics as EnginePanicError, and everything else as it is."""
    try:
        yield
    except BaseException as error:
        if (type(error).__module__, type(error).__name__) != _PANIC:
            raise
        raise EnginePanicError from error
