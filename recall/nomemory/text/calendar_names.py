"""Names of months and weekdays in Chinese and English, and patterns that match them."""

from __future__ import annotations

from typing import Final

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


MONTH: Final = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
"""Matches the name of a month in lower case, or its first three letters."""


WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


WEEKDAY: Final = "|".join(WEEKDAYS)
"""Matches the name of a day of the week in lower case."""


CHINESE_WEEK: Final = "(?:周|星期|礼拜)"


CHINESE_WEEKDAYS: Final = "一二三四五六日天"
"""The characters that number the days of a week; the last two are both Sunday."""


def month_number(name: str) -> int:
    """Return the number of a month, 1 to 12, from three letters of its name or more, in any case."""
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name[:3].lower()))
