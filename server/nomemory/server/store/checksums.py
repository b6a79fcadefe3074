"""Checksums of message versions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final
from zlib import crc32

_BITS_32: Final = 0xFFFF_FFFF
_CACHED_USERS: Final = 4096


def compute_checksum(user_id: str, sequence: int, wire: bytes) -> int:
    """Return the CRC-32 of a message version, which covers its user id, sequence number and encoded message."""
    return crc32(wire, (compute_initial_crc(user_id) + sequence) & _BITS_32)


@lru_cache(_CACHED_USERS)
def compute_initial_crc(user_id: str) -> int:
    """Return the CRC-32 of a user id, to which the sequence number is added to start the checksum of a version."""
    return crc32(user_id.encode())


# The columns depend on the statement.
Row = Any
