"""JSON as it comes in: strict, bounded in depth and number of values, no key twice."""

from __future__ import annotations

import re
from typing import Final

import jiter

from nomemory.server.faults import Fault, Reason

Json = object
"""What JSON stands for: a dict, a list, a str, an int, a float, a bool or None."""

_PLACE: Final = re.compile(r"at line \d+ column \d+$")


_NUMBERS: Final = re.compile(rb"\[[-+.0-9eE, \t\r\n]*\]")
"""A plain array of numbers. No quote is in it, so none of them begins or ends within a string."""


def parse(raw: bytes, values_max: int, numbers_max: int) -> Json:
    """Return what a text stands for.

    Args:
        raw: the text.
        values_max: how many values it may have, but for the numbers of plain arrays.
        numbers_max: how many numbers in plain arrays.

    Raises:
        Fault: MALFORMED_REQUEST, it is not JSON in UTF-8, has a key twice, is deeper than 200 levels, or may have too
            many values: a short one takes thirty times its length in memory.
    """
    _refuse_many(raw, values_max, numbers_max)
    try:
        return jiter.from_json(raw, allow_inf_nan=False, cache_mode="none", catch_duplicate_keys=True)
    except ValueError as error:
        raise _malformed(_wrong(str(error))) from None


def _refuse_many(raw: bytes, values_max: int, numbers_max: int) -> None:
    if len(raw) <= values_max:
        return
    values = sum(map(raw.count, (b",", b"[", b"{")))
    if values <= values_max:
        return
    numbers = sum(found[0].count(b",") for found in _NUMBERS.finditer(raw))
    if values - numbers > values_max:
        raise _malformed(f"may have more than {values_max} values, not counting the numbers of plain arrays")
    if numbers > numbers_max:
        raise _malformed(f"may have more than {numbers_max} numbers")


def _malformed(wrong: str) -> Fault:
    return Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, f"the request {wrong}")


def _wrong(words: str) -> str:
    """Say what is wrong, and where. The parser's own words may quote a key."""
    place = _PLACE.search(words)
    wrong = "has a key twice" if words.startswith("Detected duplicate key") else "is not valid JSON in UTF-8"
    return f"{wrong}, {place[0]}" if place else wrong
