"""Generation of message ids, which consist of `m_` and a ULID (https://github.com/ulid/spec)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


_PAIR_BITS, _DIGITS = 10, 26


_SHIFTS = range(_DIGITS // 2 * _PAIR_BITS - _PAIR_BITS, -1, -_PAIR_BITS)


_RANDOM_BITS = 80


_STEP_BYTES = 5


def generate_ulid() -> str:
    """Return a new random ULID with the current time as its timestamp."""
    milliseconds = time.time_ns() // 1_000_000
    return _encode_crockford(milliseconds << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big"))


class IdAllocator:
    """Allocates strictly increasing 128-bit ULID values, even if the clock goes backwards.

    The random bits of each new millisecond keep the ids of different message logs distinct.

    Args:
        last: the largest value that has been allocated so far.
        clock: returns the time in nanoseconds since the Unix epoch.

    Attributes:
        last: the largest allocated value.
    """

    def __init__(self, last: int, clock: Callable[[], int] = time.time_ns) -> None:
        self.last = last
        self._clock = clock

    def allocate(self, count: int) -> int:
        """Allocate `count` consecutive values and return the first one."""
        now = self._clock() // 1_000_000 << _RANDOM_BITS
        # A random step: consecutive ids would reveal how many ids other callers received.
        successor = self.last + 1 + int.from_bytes(os.urandom(_STEP_BYTES), "big")
        first = successor if now <= self.last else now | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
        self.last = first + count - 1
        return first


def encode_message_id(number: int) -> str:
    """Return the message id of an allocated value. Message ids sort in the order of the allocated values."""
    return f"m_{_encode_crockford(number)}"


def _encode_crockford(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
