"""Resolve dates in a message relative to its send date: `yesterday`, 下周三, `in three weeks`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import MAXYEAR, date, timedelta
from typing import Final

from nomemory.text.calendar_names import CHINESE_WEEK, CHINESE_WEEKDAYS, WEEKDAYS
from nomemory.text.figures import PartialDate
from nomemory.text.normalization import limit_combining_marks
from nomemory.text.numerals import NUMERAL, parse_chinese_numeral, replace_number_words

_WEEK: Final = 7
_YEAR_MONTHS: Final = 12
_SATURDAY: Final = 5
_MAX_DISTANCE_DAYS: Final = 366
"""Maximum distance in days between the send date and a date without a year."""


def find_relative_dates(text: str, sent: date) -> frozenset[PartialDate]:
    """Return the dates that a text may refer to, given the date on which it was sent.

    All interpretations of an ambiguous expression are returned: "Friday" may be the Friday of the previous, the
    current or the next week.
    """
    normalized_text = replace_number_words(unicodedata.normalize("NFKC", limit_combining_marks(text)))
    dates = set[PartialDate]()
    for pattern, read_dates in _EXPRESSIONS:
        for match in pattern.finditer(normalized_text):
            try:
                dates.update(read_dates(match, sent))
            except (OverflowError, ValueError):  # The date is outside the calendar.
                continue
    return frozenset(dates)


def complete_dates(partial_date: PartialDate, sent: date) -> Iterator[PartialDate]:
    """Yield a partial date, and the dates near the send date that result from adding its missing year or month."""
    yield partial_date
    if partial_date.day is not None and partial_date.month is None and partial_date.year is None:
        for months in (-1, 0, 1):
            year, month = _shift_month(sent, months)
            yield PartialDate(year, month, partial_date.day)
    elif partial_date.month is not None and partial_date.year is None:
        for year in (sent.year - 1, sent.year, sent.year + 1):
            day = PartialDate(year, partial_date.month, partial_date.day or 1).to_calendar_day()
            if day is not None and abs((day - sent).days) <= _MAX_DISTANCE_DAYS:
                yield PartialDate(year, partial_date.month, partial_date.day)


_DateReader = Callable[[re.Match[str], date], Iterator[PartialDate]]


def _to_partial_date(day: date) -> PartialDate:
    return PartialDate(day.year, day.month, day.day)


def _build_day_parser(days: int) -> _DateReader:
    return lambda _, sent: iter([_to_partial_date(sent + timedelta(days=days))])


def _shift_month(sent: date, months: int) -> tuple[int, int]:
    years, month = divmod(sent.year * _YEAR_MONTHS + sent.month - 1 + months, _YEAR_MONTHS)
    return min(max(years, 1), MAXYEAR), month + 1


def _build_month_parser(months: int) -> _DateReader:
    return lambda _, sent: iter([PartialDate(*_shift_month(sent, months))])


def _build_year_parser(years: int) -> _DateReader:
    return lambda _, sent: iter([PartialDate(sent.year + years)])


def _build_week_parser(weeks: int) -> _DateReader:
    def parse_week(_: re.Match[str], sent: date) -> Iterator[PartialDate]:
        monday = sent - timedelta(days=sent.weekday()) + timedelta(days=_WEEK * weeks)
        return (_to_partial_date(monday + timedelta(days=weekday)) for weekday in range(_WEEK))

    return parse_week


def _parse_weekend(_: re.Match[str], sent: date) -> Iterator[PartialDate]:
    saturday = sent - timedelta(days=sent.weekday()) + timedelta(days=_SATURDAY)
    return (_to_partial_date(saturday + timedelta(days=days)) for days in (-7, -6, 0, 1, 7, 8))


def _parse_weekday(match: re.Match[str], sent: date) -> Iterator[PartialDate]:
    """Yield the dates that a weekday may refer to; `上` and `last` refer to the past, `下` and `next` to the future."""
    name = match["wd"].lower()
    weekday = min(CHINESE_WEEKDAYS.find(name), 6) if name in CHINESE_WEEKDAYS else WEEKDAYS.index(name)
    day_of_this_week = sent - timedelta(days=sent.weekday()) + timedelta(days=weekday)
    modifier = (match["w"] or "").lower()
    weeks = {"上上": (-2,), "上": (-1,), "下": (1,), "下下": (2,), "last": (-1, 0), "next": (0, 1)}.get(
        modifier, (-1, 0, 1)
    )
    return (_to_partial_date(day_of_this_week + timedelta(days=_WEEK * week)) for week in weeks)


def _parse_relative_date(match: re.Match[str], sent: date) -> Iterator[PartialDate]:
    """Yield the possible dates of an expression such as "three weeks ago", relative to the send date."""
    count = _parse_count(match["n"])
    unit = match["u"].lower()
    direction = -1 if match["back"] else 1
    if unit in {"month", "月"}:
        year, month = _shift_month(sent, direction * count)
        yield PartialDate(year, month)
        yield PartialDate(year, month, sent.day)
    elif unit in {"year", "年"}:
        yield PartialDate(sent.year + direction * count)
        yield PartialDate(sent.year + direction * count, sent.month, sent.day)
    else:
        yield _to_partial_date(sent + timedelta(days=direction * count * _UNIT_DAYS.get(unit, _WEEK)))


def _parse_count(text: str) -> int:
    values = parse_chinese_numeral(text)
    return int(max(values)) if values else 1


_UNIT_DAYS: Final = {"day": 1, "night": 1, "天": 1, "日": 1, "fortnight": 14}
_COUNT: Final = rf"(?P<n>{NUMERAL}|an?|one)"
_UNIT: Final = r"(?P<u>day|night|week|fortnight|month|year)s?"
_UNIT_ZH: Final = r"(?P<u>天|日|周|星期|礼拜|月|年)"
_IGNORE_CASE: Final = re.IGNORECASE
_EXPRESSIONS: Final[tuple[tuple[re.Pattern[str], _DateReader], ...]] = (
    (re.compile(r"大前天"), _build_day_parser(-3)),
    (re.compile(r"前[天晚日]|\bday before yesterday\b", _IGNORE_CASE), _build_day_parser(-2)),
    (re.compile(r"昨[天晚日夜儿]?|\byesterday\b|\blast night\b", _IGNORE_CASE), _build_day_parser(-1)),
    (
        re.compile(r"明[天早晚日儿]|次日|第二天|\btomorrow\b|\b(?:next|following) day\b|\bovernight\b", _IGNORE_CASE),
        _build_day_parser(1),
    ),
    (re.compile(r"后[天日晚]|\bday after tomorrow\b", _IGNORE_CASE), _build_day_parser(2)),
    (re.compile(r"大后天"), _build_day_parser(3)),
    (re.compile(r"上上个?(?:周|星期|礼拜)(?![一二三四五六日天])"), _build_week_parser(-2)),
    (
        re.compile(r"上个?(?:周|星期|礼拜)(?![一二三四五六日天])|\b(?:last|past|previous) week\b", _IGNORE_CASE),
        _build_week_parser(-1),
    ),
    (re.compile(r"[这本]个?(?:周|星期|礼拜)(?![一二三四五六日天])|\bthis week\b", _IGNORE_CASE), _build_week_parser(0)),
    (
        re.compile(r"下个?(?:周|星期|礼拜)(?![一二三四五六日天])|\b(?:next|coming|following) week\b", _IGNORE_CASE),
        _build_week_parser(1),
    ),
    (re.compile(r"周末|\bweekend\b", _IGNORE_CASE), _parse_weekend),
    (re.compile(r"上个?月|\blast month\b", _IGNORE_CASE), _build_month_parser(-1)),
    (re.compile(r"[这本]个?月|月[初中底末]|\bthis month\b|\bend of the month\b", _IGNORE_CASE), _build_month_parser(0)),
    (re.compile(r"下个?月|\bnext month\b", _IGNORE_CASE), _build_month_parser(1)),
    (re.compile(r"去年|\blast year\b", _IGNORE_CASE), _build_year_parser(-1)),
    (re.compile(r"今年|\bthis year\b", _IGNORE_CASE), _build_year_parser(0)),
    (re.compile(r"明年|\bnext year\b", _IGNORE_CASE), _build_year_parser(1)),
    (re.compile(r"前年"), _build_year_parser(-2)),
    (re.compile(r"后年"), _build_year_parser(2)),
    (re.compile(rf"(?P<w>上上|上|下下|下)?个?{CHINESE_WEEK}(?P<wd>[{CHINESE_WEEKDAYS}])"), _parse_weekday),
    (re.compile(rf"\b(?:(?P<w>last|next)\s+)?(?P<wd>{'|'.join(WEEKDAYS)})", _IGNORE_CASE), _parse_weekday),
    (re.compile(rf"\b{_COUNT}\s+{_UNIT}\s+(?P<back>ago|earlier|before)\b", _IGNORE_CASE), _parse_relative_date),
    (re.compile(rf"\b(?:in|within)\s+{_COUNT}\s+{_UNIT}(?P<back>)\b", _IGNORE_CASE), _parse_relative_date),
    (
        re.compile(rf"\b{_COUNT}\s+{_UNIT}\s+(?:from now|later|after|from today)(?P<back>)\b", _IGNORE_CASE),
        _parse_relative_date,
    ),
    (re.compile(rf"{_COUNT}个?{_UNIT_ZH}(?P<back>(?:以|之)?前)"), _parse_relative_date),
    (re.compile(rf"{_COUNT}个?{_UNIT_ZH}(?:以|之)?后(?P<back>)"), _parse_relative_date),
)
