"""Resolve dates in a message relative to its send date: `yesterday`, 下周三, `in three weeks`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import MAXYEAR, date, timedelta
from typing import Final

from nomemory.text.calendar_names import CHINESE_WEEK, CHINESE_WEEKDAYS, WEEKDAYS
from nomemory.text.figures import PartialDate
from nomemory.text.numerals import NUMERAL, chinese_values, with_digits

_WEEK: Final = 7
_YEAR_MONTHS: Final = 12
_SATURDAY: Final = 5
_MAX_DISTANCE_DAYS: Final = 366
"""Maximum distance in days between the send date and a date without a year."""


def relative_dates(text: str, sent: date) -> frozenset[PartialDate]:
    """Return the possible dates in a text, relative to its send date.

    Ambiguous expressions produce all readings: "Friday" is the Friday of this week and of the next week.
    """
    plain = with_digits(unicodedata.normalize("NFKC", text))
    dates = set[PartialDate]()
    for pattern, read in _EXPRESSIONS:
        for match in pattern.finditer(plain):
            try:
                dates.update(read(match, sent))
            except (OverflowError, ValueError):  # The date is outside the calendar.
                continue
    return frozenset(dates)


def complete_dates(named: PartialDate, sent: date) -> Iterator[PartialDate]:
    """Fill in the missing parts of a date with the values nearest to the send date."""
    yield named
    if named.day is not None and named.month is None and named.year is None:
        for months in (-1, 0, 1):
            year, month = _month(sent, months)
            yield PartialDate(year, month, named.day)
    elif named.month is not None and named.year is None:
        for year in (sent.year - 1, sent.year, sent.year + 1):
            day = PartialDate(year, named.month, named.day or 1).days()
            if day is not None and abs((day - sent).days) <= _MAX_DISTANCE_DAYS:
                yield PartialDate(year, named.month, named.day)


_Read = Callable[[re.Match[str], date], Iterator[PartialDate]]


def _partial_date(day: date) -> PartialDate:
    return PartialDate(day.year, day.month, day.day)


def _shift(days: int) -> _Read:
    return lambda _, sent: iter([_partial_date(sent + timedelta(days=days))])


def _month(sent: date, months: int) -> tuple[int, int]:
    years, month = divmod(sent.year * _YEAR_MONTHS + sent.month - 1 + months, _YEAR_MONTHS)
    return min(max(years, 1), MAXYEAR), month + 1


def _months(months: int) -> _Read:
    return lambda _, sent: iter([PartialDate(*_month(sent, months))])


def _years(years: int) -> _Read:
    return lambda _, sent: iter([PartialDate(sent.year + years)])


def _week(weeks: int) -> _Read:
    def read(_: re.Match[str], sent: date) -> Iterator[PartialDate]:
        monday = sent - timedelta(days=sent.weekday()) + timedelta(days=_WEEK * weeks)
        return (_partial_date(monday + timedelta(days=at)) for at in range(_WEEK))

    return read


def _weekend(_: re.Match[str], sent: date) -> Iterator[PartialDate]:
    saturday = sent - timedelta(days=sent.weekday()) + timedelta(days=_SATURDAY)
    return (_partial_date(saturday + timedelta(days=days)) for days in (-7, -6, 0, 1, 7, 8))


def _weekday(match: re.Match[str], sent: date) -> Iterator[PartialDate]:
    """Return the possible days of a weekday; `上` and `last` look back, `下` and `next` look ahead."""
    name = match["wd"].lower()
    at = min(CHINESE_WEEKDAYS.find(name), 6) if name in CHINESE_WEEKDAYS else WEEKDAYS.index(name)
    of_week = sent - timedelta(days=sent.weekday()) + timedelta(days=at)
    which = (match["w"] or "").lower()
    weeks = {"上上": (-2,), "上": (-1,), "下": (1,), "下下": (2,), "last": (-1, 0), "next": (0, 1)}.get(
        which, (-1, 0, 1)
    )
    return (_partial_date(of_week + timedelta(days=_WEEK * week)) for week in weeks)


def _at_distance(match: re.Match[str], sent: date) -> Iterator[PartialDate]:
    """Return the date at the given distance in days, weeks, months or years."""
    count = _count(match["n"])
    unit = match["u"].lower()
    side = -1 if match["back"] else 1
    if unit in {"month", "月"}:
        year, month = _month(sent, side * count)
        yield PartialDate(year, month)
        yield PartialDate(year, month, sent.day)
    elif unit in {"year", "年"}:
        yield PartialDate(sent.year + side * count)
        yield PartialDate(sent.year + side * count, sent.month, sent.day)
    else:
        yield _partial_date(sent + timedelta(days=side * count * _DAYS.get(unit, _WEEK)))


def _count(text: str) -> int:
    values = chinese_values(text)
    return int(max(values)) if values else 1


_DAYS: Final = {"day": 1, "night": 1, "天": 1, "日": 1, "fortnight": 14}
_N: Final = rf"(?P<n>{NUMERAL}|an?|one)"
_UNIT: Final = r"(?P<u>day|night|week|fortnight|month|year)s?"
_UNIT_ZH: Final = r"(?P<u>天|日|周|星期|礼拜|月|年)"
_I: Final = re.IGNORECASE
_EXPRESSIONS: Final[tuple[tuple[re.Pattern[str], _Read], ...]] = (
    (re.compile(r"大前天"), _shift(-3)),
    (re.compile(r"前[天晚日]|\bday before yesterday\b", _I), _shift(-2)),
    (re.compile(r"昨[天晚日夜儿]?|\byesterday\b|\blast night\b", _I), _shift(-1)),
    (
        re.compile(r"明[天早晚日儿]|次日|第二天|\btomorrow\b|\b(?:next|following) day\b|\bovernight\b", _I),
        _shift(1),
    ),
    (re.compile(r"后[天日晚]|\bday after tomorrow\b", _I), _shift(2)),
    (re.compile(r"大后天"), _shift(3)),
    (re.compile(r"上上个?(?:周|星期|礼拜)(?![一二三四五六日天])"), _week(-2)),
    (
        re.compile(r"上个?(?:周|星期|礼拜)(?![一二三四五六日天])|\b(?:last|past|previous) week\b", _I),
        _week(-1),
    ),
    (re.compile(r"[这本]个?(?:周|星期|礼拜)(?![一二三四五六日天])|\bthis week\b", _I), _week(0)),
    (
        re.compile(r"下个?(?:周|星期|礼拜)(?![一二三四五六日天])|\b(?:next|coming|following) week\b", _I),
        _week(1),
    ),
    (re.compile(r"周末|\bweekend\b", _I), _weekend),
    (re.compile(r"上个?月|\blast month\b", _I), _months(-1)),
    (re.compile(r"[这本]个?月|月[初中底末]|\bthis month\b|\bend of the month\b", _I), _months(0)),
    (re.compile(r"下个?月|\bnext month\b", _I), _months(1)),
    (re.compile(r"去年|\blast year\b", _I), _years(-1)),
    (re.compile(r"今年|\bthis year\b", _I), _years(0)),
    (re.compile(r"明年|\bnext year\b", _I), _years(1)),
    (re.compile(r"前年"), _years(-2)),
    (re.compile(r"后年"), _years(2)),
    (re.compile(rf"(?P<w>上上|上|下下|下)?个?{CHINESE_WEEK}(?P<wd>[{CHINESE_WEEKDAYS}])"), _weekday),
    (re.compile(rf"\b(?:(?P<w>last|next)\s+)?(?P<wd>{'|'.join(WEEKDAYS)})", _I), _weekday),
    (re.compile(rf"\b{_N}\s+{_UNIT}\s+(?P<back>ago|earlier|before)\b", _I), _at_distance),
    (re.compile(rf"\b(?:in|within)\s+{_N}\s+{_UNIT}(?P<back>)\b", _I), _at_distance),
    (re.compile(rf"\b{_N}\s+{_UNIT}\s+(?:from now|later|after|from today)(?P<back>)\b", _I), _at_distance),
    (re.compile(rf"{_N}个?{_UNIT_ZH}(?P<back>(?:以|之)?前)"), _at_distance),
    (re.compile(rf"{_N}个?{_UNIT_ZH}(?:以|之)?后(?P<back>)"), _at_distance),
)
