"""Conversion of Tantivy panics to ordinary exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_PANIC = ("pyo3_runtime", "PanicException")


class EnginePanicError(Exception):
    """The engine panicked during a call, which may be incomplete."""


@contextmanager
def translate_panics() -> Iterator[None]:
    """Raise panics of the engine as EnginePanicError. Other exceptions are not changed."""
    try:
        yield
    except BaseException as error:
        if (type(error).__module__, type(error).__name__) != _PANIC:
            raise
        raise EnginePanicError from error
