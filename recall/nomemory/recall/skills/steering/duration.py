"""ISO 8601 durations."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_DURATION: Final = re.compile(
    r"P(?:(?P<years>[0-9]{1,6})Y)?(?:(?P<months>[0-9]{1,6})M)?(?:(?P<weeks>[0-9]{1,6})W)?(?:(?P<days>[0-9]{1,6})D)?"
    r"(?:T(?:(?P<hours>[0-9]{1,6})H)?(?:(?P<minutes>[0-9]{1,6})M)?(?:(?P<seconds>[0-9]{1,6})S)?)?",
    re.IGNORECASE,
)
_DAYS: Final = {"years": 365, "months": 30, "weeks": 7, "days": 1}


def duration(text: str) -> timedelta | None:
    """Read a duration such as `P30D`, `P6M` or `PT12H`; None if it is none, or is no time at all.

    A month is 30 days and a year 365, as nobody remembers to the day. Fractions are not read.
    """
    match = _DURATION.fullmatch(text)
    if match is None or text[-1] in "Tt":
        return None
    given = {unit: int(number) for unit, number in match.groupdict().items() if number}
    days = sum(given.pop(unit, 0) * length for unit, length in _DAYS.items())
    return (timedelta(days=days) + timedelta(**given)) or None
