"""Chinese and English names of months and weekdays, with patterns that match them."""

from __future__ import annotations

from typing import Final

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


MONTH: Final = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
"""Pattern for lower-case month names and their three-letter abbreviations."""


WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


WEEKDAY: Final = "|".join(WEEKDAYS)
"""Pattern for lower-case weekday names."""


CHINESE_WEEK: Final = "(?:周|星期|礼拜)"


CHINESE_WEEKDAYS: Final = "一二三四五六日天"
"""The characters that number weekdays; the last two both mean Sunday."""


def parse_month(name: str) -> int:
    """Return the number of a month, 1 to 12.

    The name may be abbreviated to three letters; case is ignored.
    """
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name[:3].lower()))
