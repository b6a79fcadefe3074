"""Count failed attempts to open a shard, and delete its files after three failures.

A damaged file can make the engine raise an exception, abort or exceed its memory limit. The counter is therefore
written before each attempt and removed after a successful attempt. When the files have been deleted, the index is
rebuilt from the message log.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MAX_ATTEMPTS: Final = 3
_MIN_FREE_BYTES: Final = 256 << 20
"""With less free space, the full disk is the likely cause of a failure, and the files are not deleted."""


def mark_corrupt(root: Path) -> None:
    """Mark a shard as corrupt. The next process that opens the shard deletes its files first."""
    _get_counter_path(root).write_text(str(_MAX_ATTEMPTS))


def clear_attempts(root: Path) -> None:
    """Reset the counter of failed attempts, unless the shard is marked as corrupt."""
    if _read_counter(_get_counter_path(root)) < _MAX_ATTEMPTS:
        _get_counter_path(root).unlink(missing_ok=True)


@contextmanager
def count_attempt(root: Path) -> Iterator[None]:
    """Count an attempt to open a shard, and reset the counter if the context exits without an error.

    The files of a corrupt shard are deleted first.

    Args:
        root: the directory of the shard. The directory need not exist, but its parent must.
    """
    corrupt = root.with_name(f"{root.name}.corrupt")
    shutil.rmtree(corrupt, ignore_errors=True)  # left by an interrupted deletion
    attempts = _read_counter(_get_counter_path(root))
    if attempts >= _MAX_ATTEMPTS and _is_disk_usable(root.parent):
        if root.exists():
            root.rename(corrupt)
            shutil.rmtree(corrupt, ignore_errors=True)
        attempts = 0
    _get_counter_path(root).write_text(str(attempts + 1))
    yield
    _get_counter_path(root).unlink(missing_ok=True)


def _is_disk_usable(directory: Path) -> bool:
    return os.access(directory, os.W_OK | os.X_OK) and shutil.disk_usage(directory).free >= _MIN_FREE_BYTES


def _get_counter_path(root: Path) -> Path:
    return root.with_name(f"{root.name}.attempts")


def _read_counter(counter: Path) -> int:
    try:
        return int(counter.read_text())
    except (FileNotFoundError, ValueError):
        return 0
