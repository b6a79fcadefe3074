"""Generated message ids: `m_` and a ULID (https://github.com/ulid/spec) in Crockford's base 32."""

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


def new_ulid() -> str:
    """Make a ULID of now."""
    milliseconds = time.time_ns() // 1_000_000
    return _crockford(milliseconds << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big"))


class IdAllocator:
    """Gives out the numbers of ids, each larger than all before, even where the clock goes back.

    A number of a new millisecond has random bits, so that two logs do not make the same ids.

    Args:
        last: the last number that was given out before.
        clock: nanoseconds since the epoch.

    Attributes:
        last: the last number that was given out.
    """

    def __init__(self, last: int, clock: Callable[[], int] = time.time_ns) -> None:
        self.last = last
        self._clock = clock

    def allocate(self, count: int) -> int:
        """Give out so many numbers in a row; return the first of them."""
        now = self._clock() // 1_000_000 << _RANDOM_BITS
        # A step of one would tell callers how many ids others got in between.
        onwards = self.last + 1 + int.from_bytes(os.urandom(_STEP_BYTES), "big")
        first = onwards if now <= self.last else now | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
        self.last = first + count - 1
        return first


def id_of(number: int) -> str:
    """Return the id of a number. Ids sort as their numbers do."""
    return f"m_{_crockford(number)}"


def _crockford(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
