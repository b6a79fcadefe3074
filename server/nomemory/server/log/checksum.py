"""The checksum of a version of a message: over its bytes, its sequence and its user."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from zlib import crc32

_BITS_32: Final = 0xFFFF_FFFF
_USERS_KEPT: Final = 4096

SQL_NAME: Final = "message_checksum"


def checksum(user_id: str, sequence: int, wire: bytes) -> int:
    """Return the checksum, an unsigned number of 32 bits."""
    return crc32(wire, (start_of(user_id) + sequence) & _BITS_32)


def hold(wires: Iterable[bytes], starts: Iterable[int], sums: tuple[int, ...]) -> bool:
    """Return whether the checksums of versions hold; many are checked at once without a step of the interpreter.

    Args:
        wires: the versions' bytes.
        starts: their sequences, each with `start_of` their user added.
        sums: their checksums.
    """
    return tuple(map(crc32, wires, starts)) == sums


def add_checksum(connection: sqlite3.Connection) -> None:
    """Make `message_checksum(user_id, seq, wire)` a function of this connection's statements."""
    connection.create_function(SQL_NAME, 3, checksum, deterministic=True)


@lru_cache(_USERS_KEPT)
def start_of(user_id: str) -> int:
    """Return what a user adds to the sequence with which a checksum begins."""
    return crc32(user_id.encode())
