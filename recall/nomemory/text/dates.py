"""Dates and times as people write them in Chinese and English."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.text.calendar_names import CHINESE_WEEK, CHINESE_WEEKDAYS, MONTH, MONTHS, WEEKDAY, month_number

_CHINESE_DAY = regex.compile(r"(?:(\d{1,2})\s*月\s*)?(\d{1,2})\s*[号日](?!线)")
_ISO_DAY = regex.compile(r"\b\d{4}-(\d{2})-(\d{2})\b")
_DAY_MONTH = regex.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({MONTH})\b")
_MONTH_DAY = regex.compile(rf"\b({MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)")
_ORDINAL_DAY = regex.compile(r"\bthe (\d{1,2})(?:st|nd|rd|th)\b")
_DIGIT = regex.compile(r"\d")
_VAGUE = regex.compile(
    rf"{CHINESE_WEEK}[{CHINESE_WEEKDAYS}末]|[下上]个?(?:周|月|星期)|明天|后天|今晚|明年|年底|月底"
    r"|\d{1,2}[:：]\d{2}|[\d一二三四五六七八九十两]+点[半钟]?|\d{1,2}\s*月"
    rf"|\b(?:{WEEKDAY})s?\b|\btomorrow\b|\btonight\b|\bnext (?:week|month|year)\b"
    rf"|\b\d{{1,2}} ?[ap]m\b|\b(?:{'|'.join(month for month in MONTHS if month not in ('may', 'march'))})\b"
    r"|\b(?:in|by|until|since|from) (?:may|march)\b|\b(?:19|20)\d{2}\b"
)


@dataclass(frozen=True, slots=True)
class Day:
    """A day of a month; month 0 where only the day is said."""

    month: int
    day: int

    def may_be(self, other: Day) -> bool:
        """Return whether both may mean the same day."""
        return self.day == other.day and (self.month == other.month or 0 in (self.month, other.month))


def days(plain: str) -> list[Day]:
    """Return the days that a plain text names, in its order."""
    return [day for _, day in sorted(_found(plain), key=lambda pair: pair[0]) if 0 < day.day <= 31]  # noqa: PLR2004 - the days of a month


def days_from(plain: str, ts: datetime) -> list[Day]:
    """Return the days that a plain text names, said at a time: a day without a month is the next one."""
    return [day if day.month else Day(_next_month(ts, day.day), day.day) for day in days(plain)]


def names_moment(plain: str) -> bool:
    """Return whether a plain text says when: a day, a month, a day of the week, a time of day."""
    return bool(_VAGUE.search(plain) or (_DIGIT.search(plain) and any(True for _ in _found(plain))))


def _found(plain: str) -> Iterator[tuple[int, Day]]:
    for match in _CHINESE_DAY.finditer(plain):
        yield match.start(), Day(int(match[1] or 0), int(match[2]))
    for match in _ISO_DAY.finditer(plain):
        yield match.start(), Day(int(match[1]), int(match[2]))
    for match in _DAY_MONTH.finditer(plain):
        yield match.start(), Day(month_number(match[2]), int(match[1]))
    for match in _MONTH_DAY.finditer(plain):
        yield match.start(), Day(month_number(match[1]), int(match[2]))
    for match in _ORDINAL_DAY.finditer(plain):
        yield match.start(), Day(0, int(match[1]))


def _next_month(ts: datetime, day: int) -> int:
    return ts.month if day >= ts.day else ts.month % 12 + 1
