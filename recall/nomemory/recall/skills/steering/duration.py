"""ISO 8601 durations."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from pydantic import TypeAdapter

_FORM: Final = re.compile(
    r"P(?=[0-9T])(?:[0-9]{1,6}Y)?(?:[0-9]{1,6}M)?(?:[0-9]{1,6}W)?(?:[0-9]{1,6}D)?"
    r"(?:T(?=[0-9])(?:[0-9]{1,6}H)?(?:[0-9]{1,6}M)?(?:[0-9]{1,6}S)?)?"
)
_LENGTH: Final = TypeAdapter(timedelta)


def duration(text: str) -> timedelta | None:
    """Read a duration such as `P30D`, `P6M` or `PT12H`; None if it is none, or is no time at all.

    A month is 30 days and a year 365, as nobody remembers to the day. Fractions are not read.
    """
    form = text.upper() if text.isascii() else ""
    return (_LENGTH.validate_python(form) or None) if _FORM.fullmatch(form) else None
