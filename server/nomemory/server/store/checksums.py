"""The checksum of a message version."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final
from zlib import crc32

_BITS_32: Final = 0xFFFF_FFFF
_USERS_KEPT: Final = 4096


def checksum(user_id: str, sequence: int, wire: bytes) -> int:
    """Return the checksum, an unsigned number of 32 bits."""
    return crc32(wire, (start_of(user_id) + sequence) & _BITS_32)


@lru_cache(_USERS_KEPT)
def start_of(user_id: str) -> int:
    """Return what a user adds to the sequence with which a checksum begins."""
    return crc32(user_id.encode())


# Any: each statement says what its columns are.
Row = Any
