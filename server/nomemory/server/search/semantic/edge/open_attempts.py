"""Count failed attempts to open the files of a shard, and delete files that cannot be opened.

A damaged file may make the engine raise, abort or use up its memory, so the counter is written before each attempt and
removed after it. After three failures the files are deleted, and the index is rebuilt from the message log.
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
"""With less free space the disk is the likely cause of a failure, and the files are kept."""


def mark_corrupt(root: Path) -> None:
    """Have the next process that opens the shard delete its files first."""
    _counter(root).write_text(str(_MAX_ATTEMPTS))


def clear_attempts(root: Path) -> None:
    """Forget attempts that were interrupted from outside. A shard that is marked corrupt stays so."""
    if _read(_counter(root)) < _MAX_ATTEMPTS:
        _counter(root).unlink(missing_ok=True)


@contextmanager
def attempt(root: Path) -> Iterator[None]:
    """Count an attempt to open the shard until the context ends without an error. Delete corrupt files first.

    Args:
        root: the directory of the shard. It need not exist, but its parent has to.
    """
    corrupt = root.with_name(f"{root.name}.corrupt")
    shutil.rmtree(corrupt, ignore_errors=True)  # a deletion that was interrupted
    attempts = _read(_counter(root))
    if attempts >= _MAX_ATTEMPTS and _is_disk_usable(root.parent):
        if root.exists():
            root.rename(corrupt)
            shutil.rmtree(corrupt, ignore_errors=True)
        attempts = 0
    _counter(root).write_text(str(attempts + 1))
    yield
    _counter(root).unlink(missing_ok=True)


def _is_disk_usable(directory: Path) -> bool:
    return os.access(directory, os.W_OK | os.X_OK) and shutil.disk_usage(directory).free >= _MIN_FREE_BYTES


def _counter(root: Path) -> Path:
    return root.with_name(f"{root.name}.attempts")


def _read(counter: Path) -> int:
    try:
        return int(counter.read_text())
    except (FileNotFoundError, ValueError):
        return 0
