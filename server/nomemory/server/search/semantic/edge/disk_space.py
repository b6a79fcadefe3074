"""Check the disk space for a copy of a shard."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from nomemory.server.search.semantic.protocol import InsufficientSpaceError

_PREALLOCATED_BYTES: Final = 64 << 20
"""Bytes that the engine preallocates for the write-ahead log of a shard."""
_BLOCK_BYTES: Final = 512
"""Unit of `st_blocks`."""
_BYTES_PER_NUMBER, _PAYLOAD_BYTES = 8, 1024
"""Upper bounds per point: each number and the payload are stored twice, in the files and in the write-ahead log."""


def require_copy_space(shard: Path, min_free_bytes: int) -> None:
    """Check that there is enough disk space for a copy of a shard.

    Raises:
        InsufficientSpaceError: the disk would have less than `min_free_bytes` left.
    """
    _require_space(shard, _compute_directory_size(shard) + _PREALLOCATED_BYTES, min_free_bytes)


def require_points_space(shard: Path, points: int, dimension: int, min_free_bytes: int) -> None:
    """Check that there is enough disk space for a shard with `points` points.

    Raises:
        InsufficientSpaceError: the disk would have less than `min_free_bytes` left.
    """
    _require_space(shard, points * (dimension * _BYTES_PER_NUMBER + _PAYLOAD_BYTES), min_free_bytes)


def _compute_directory_size(shard: Path) -> int:
    size = 0
    for folder, _, names in os.walk(shard):
        for name in names:
            with suppress(FileNotFoundError):  # the engine has deleted a segment meanwhile
                size += Path(folder, name).stat().st_blocks * _BLOCK_BYTES
    return size


def _require_space(directory: Path, size: int, min_free_bytes: int) -> None:
    free = max(0, shutil.disk_usage(directory.parent).free - min_free_bytes)
    if free < size:
        raise InsufficientSpaceError(
            f"not enough disk space: {_to_mib(size)} MiB required, {_to_mib(free)} MiB available"
        )


def _to_mib(size: int) -> int:
    """Convert bytes to MiB, rounded up."""
    return -(-size >> 20)
