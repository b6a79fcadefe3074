"""Garbage collector tuning: disabled during imports, startup objects frozen."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable garbage collection during imports, where it takes a sixth of the time and frees nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def freeze_heap() -> None:
    """Exempt all existing objects from garbage collection. Traversing them would pause the server for up to 60 ms."""
    gc.collect()
    gc.freeze()
