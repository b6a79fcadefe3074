"""A lock between the processes of a test run."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def locked_file(path: Path) -> Iterator[IO[str]]:
    """Open a file, or create it, and lock it against other processes until the context exits."""
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file
