"""How much room there is for the copy of a shard: looked at before it and all along, so that nothing dies for it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from nomemory.server.processes.vitals import data_bytes

_MEMORY_PER_POINT = 2048
"""What the engine takes for each point of a shard that is being filled, its vector not counted: that is in a file."""
_SET_ASIDE = 64 << 20
"""What it sets aside on the disk for a shard, whatever is in it."""
_VECTOR_BYTES, _PAYLOAD_BYTES = 8, 1024
"""What a number of a vector, and what is kept beside it, take on the disk at most: twice, in the files and the log."""
_SPARED = 8
"""This part of the memory is left to searches and writes."""


@dataclass(frozen=True, slots=True)
class CopyRoom:
    """The bounds of a copy.

    Attributes:
        free_bytes_min: what it leaves free on the disk.
        memory_max_bytes: the most memory of this process; 0: no bound.
    """

    free_bytes_min: int = 0
    memory_max_bytes: int = 0

    def missing_for_all(self, directory: Path, size: int, points: int) -> str:
        """Return what is missing for a whole copy, in words; empty if nothing is.

        Args:
            directory: the shard to copy.
            size: its bytes on the disk.
            points: how many live.
        """
        return self._missing(directory, size + _SET_ASIDE, points * _MEMORY_PER_POINT)

    def missing_for_piece(self, directory: Path, size: int, points: int) -> str:
        """Return what is missing for some more points of so many bytes."""
        return self._missing(directory, size, points * _MEMORY_PER_POINT)

    def _missing(self, directory: Path, disk: int, memory: int) -> str:
        free = shutil.disk_usage(directory.parent).free - self.free_bytes_min
        if free < disk:
            return f"it needs {_mib(disk)} MiB on the disk, of which {_mib(max(0, free))} are free to be used"
        if self.memory_max_bytes:
            left = self.memory_max_bytes - self.memory_max_bytes // _SPARED - data_bytes()
            if left < memory:
                most = _mib(self.memory_max_bytes)
                return f"it needs {_mib(memory)} MiB of memory, of which {_mib(max(0, left))} are left of {most}"
        return ""


def bytes_of(points: int, dimension: int) -> int:
    """Return the most bytes that points take on the disk."""
    return points * (dimension * _VECTOR_BYTES + _PAYLOAD_BYTES)


def _mib(size: int) -> int:
    """Round up."""
    return -(-size >> 20)
