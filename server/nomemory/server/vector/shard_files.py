"""The directory of an embedded shard, and how another takes its place, whatever happens in the middle of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

_BLOCK: Final = 512
"""The unit in which the system counts what a file takes."""


class ShardFiles:
    """Directories beside each other: a shard, one that is being made, one that is complete, and one that is replaced.

    Args:
        directory: where the shard lives. It is complete whenever it is there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._unfinished = directory.with_name(f"{directory.name}.unfinished")
        self._finished = directory.with_name(f"{directory.name}.finished")
        self._former = directory.with_name(f"{directory.name}.former")

    def recover(self) -> None:
        """End what was begun: a complete shard takes the place of one that is gone; all else is thrown away."""
        if not self.directory.exists() and self._finished.exists():
            self._finished.rename(self.directory)
        for leftover in (self._unfinished, self._finished, self._former):
            shutil.rmtree(leftover, ignore_errors=True)

    def create(self, make: Callable[[Path], None]) -> None:
        """Make an empty shard. It gets its name when it is complete, so that half of one is never opened."""
        self.begin_copy(make).rename(self.directory)

    def size(self) -> int:
        """Return the bytes that the shard takes on the disk."""
        files = (Path(folder, name) for folder, _, names in os.walk(self.directory) for name in names)
        return sum(file.stat().st_blocks * _BLOCK for file in files)

    def begin_copy(self, make: Callable[[Path], None]) -> Path:
        """Make an empty shard, which will take the place of the shard; return its directory."""
        self._unfinished.mkdir(parents=True)
        make(self._unfinished)
        return self._unfinished

    def end_copy(self) -> None:
        """Put the copy, to which everything was written, in the place of the shard. Nobody has either of them open."""
        self._unfinished.rename(self._finished)
        self.directory.rename(self._former)
        self._finished.rename(self.directory)
        shutil.rmtree(self._former, ignore_errors=True)
