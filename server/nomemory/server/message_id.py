"""Generated message ids: `m_` and a ULID (https://github.com/ulid/spec) in Crockford's base 32."""

from __future__ import annotations

import hashlib
import os
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_PAIR_BITS, _DIGITS = 10, 26
_SHIFTS = range(_DIGITS // 2 * _PAIR_BITS - _PAIR_BITS, -1, -_PAIR_BITS)
_RANDOM_BITS = 80


def fresh_ulid() -> str:
    """Make a ULID of now."""
    milliseconds = time.time_ns() // 1_000_000
    return _crockford(milliseconds << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big"))


def fresh_id() -> str:
    """Make a new id."""
    return f"m_{fresh_ulid()}"


def derived_id(request_id: str, user_id: str, position: int) -> str:
    """Make the id of a message by its place in a batch, the same for every retry of that batch."""
    digest = hashlib.blake2b(f"{request_id}\0{user_id}\0{position}".encode(), digest_size=16).digest()
    return f"m_{_crockford(int.from_bytes(digest, 'big'))}"


def _crockford(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
