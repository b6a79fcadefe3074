"""Keeps the garbage collector away from what a process has loaded."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Do without garbage collection while modules are imported, which stay: to walk them takes a sixth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def freeze_heap() -> None:
    """Exempt all present objects from garbage collection. Walking them would stop every call for 20 to 60 ms."""
    gc.collect()
    gc.freeze()
