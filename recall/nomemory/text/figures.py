"""Extract figures from Chinese and English text: numbers, dates, times of day and weekdays."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Final

from nomemory.text.calendar_names import CHINESE_WEEK, CHINESE_WEEKDAYS, MONTHS, WEEKDAYS, parse_month
from nomemory.text.normalization import limit_combining_marks
from nomemory.text.numerals import CHINESE_DIGITS, NUMERAL, parse_chinese_numeral, replace_number_words

_MONTHS_OF_YEAR: Final = 12
_DAYS_OF_MONTH: Final = 31
_HOURS: Final = 24
_NOON: Final = 12
_MINUTES: Final = 60
_FULL_YEAR: Final = 4
"""Number of digits in a full year."""


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A date whose year, month and day are optional."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def covers(self, other: PartialDate) -> bool:
        """Return whether this date equals another date in every part that the other date specifies."""
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        return all(part is None or expected == part for expected, part in pairs)

    def to_calendar_day(self) -> date | None:
        """Return the calendar day; None if the date is incomplete or invalid."""
        if self.year is None or self.month is None or self.day is None:
            return None
        try:
            return date(self.year, self.month, self.day)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure in a text, with all its possible values.

    Attributes:
        text: the original spelling.
        times: possible times of day; without an AM/PM cue, both the morning and the afternoon time.
        weekday: the weekday, 0 for Monday; None for other figures.
    """

    text: str
    numbers: frozenset[Decimal] = frozenset()
    dates: frozenset[PartialDate] = frozenset()
    times: frozenset[time] = frozenset()
    weekday: int | None = None


def find_figures(text: str) -> list[Figure]:
    """Return the figures of a text. Numbers inside a date or time are not listed separately.

    A standalone `one` or `一` is skipped because it is often a pronoun or part of another word.
    """
    return list(_match_patterns(_normalize_text(text), _PATTERNS))


def find_numbers(text: str) -> frozenset[Decimal]:
    """Return all possible values of the numbers in a text, including numbers inside dates and times."""
    number_figures = _match_patterns(_normalize_text(text), _NUMBERS)
    return frozenset(number for figure in number_figures for number in figure.numbers)


def find_digit_runs(text: str) -> frozenset[str]:
    """Return the long digit sequences of a text, such as phone numbers, without spaces and hyphens."""
    return frozenset(_remove_separators(match[0]) for match in _LONG_RUN.finditer(_normalize_text(text)))


def remove_digit_runs(text: str, runs: frozenset[str]) -> str:
    """Remove the digit sequences in `runs` from a text."""
    return _LONG_RUN.sub(lambda match: " " if _remove_separators(match[0]) in runs else match[0], _normalize_text(text))


def _normalize_text(text: str) -> str:
    return replace_number_words(unicodedata.normalize("NFKC", limit_combining_marks(text)))


def _remove_separators(run: str) -> str:
    return re.sub(r"\D", "", run)


_Pattern = tuple[re.Pattern[str], Callable[[re.Match[str]], Figure | None]]


def _match_patterns(text: str, patterns: tuple[_Pattern, ...]) -> Iterator[Figure]:
    """Yield the figures that the patterns match, in the order of the patterns.

    A pattern skips text that an earlier pattern matched.
    """
    for pattern, parse in patterns:
        unmatched, end = [], 0
        for match in pattern.finditer(text):
            figure = parse(match)
            if figure is not None:
                yield figure
                unmatched.append(text[end : match.start()])
                end = match.end()
        if end:
            text = "\n".join([*unmatched, text[end:]])


def _parse_small_number(text: str | None) -> int | None:
    """Parse a small number in digits or Chinese numerals; return None for any other text."""
    if not text:
        return None
    if text.isdigit():
        return int(text)
    values = parse_chinese_numeral(text)
    return int(max(values)) if values else None


def _parse_date(match: re.Match[str]) -> Figure | None:
    parts = match.groupdict()
    year, day = _parse_small_number(parts.get("y")), _parse_small_number(parts.get("d"))
    month = _parse_month(parts.get("m"))
    is_date = (month is None or 1 <= month <= _MONTHS_OF_YEAR) and (day is None or 1 <= day <= _DAYS_OF_MONTH)
    dates = {PartialDate(year, month, day)} if is_date else set()
    if first_day := _parse_small_number(parts.get("first")):
        dates.add(PartialDate(year, month, first_day))
    return Figure(match[0].strip(), dates=frozenset(dates)) if is_date else None


def _parse_month(name: str | None) -> int | None:
    if name and name[0].isascii() and name[0].isalpha():
        return parse_month(name)
    return _parse_small_number(name)


def _parse_slashed_date(match: re.Match[str]) -> Figure | None:
    """Parse dates such as `5/21` and `21/5/2025`. The day and the month may be in either order."""
    first, second, year = int(match["a"]), int(match["b"]), match["y"]
    full_year = int(year) + (2_000 if year and len(year) < _FULL_YEAR else 0) if year else None
    dates = frozenset(
        PartialDate(full_year, month, day)
        for month, day in ((first, second), (second, first))
        if 1 <= month <= _MONTHS_OF_YEAR and 1 <= day <= _DAYS_OF_MONTH
    )
    return Figure(match[0], numbers=_to_number_set(match["a"]), dates=dates) if dates else None


def _parse_clock_time(match: re.Match[str]) -> Figure | None:
    parts = match.groupdict()
    hour, minute = _parse_small_number(parts.get("h")), _parse_small_number(parts.get("min")) or 0
    if hour is None or hour > _HOURS:
        return None
    if parts.get("part"):
        minute = {"半": 30, "一刻": 15, "三刻": 45, "half": 30, "quarter": 15}[parts["part"].lower()]
    if (parts.get("to") or "").lower() in {"to", "差"}:
        hour, minute = (hour - 1) % _HOURS, _MINUTES - minute
    return (
        Figure(match[0].strip(), times=_list_possible_times(hour % _HOURS, minute, afternoon=_is_afternoon(parts)))
        if minute < _MINUTES
        else None
    )


def _is_afternoon(parts: dict[str, str | None]) -> bool | None:
    """Return whether a time of day is after noon; None without an AM/PM cue."""
    half_day_word = (parts.get("ap") or parts.get("period") or "").lower()
    if half_day_word in _MORNINGS:
        return False
    return True if half_day_word in _AFTERNOONS else None


def _list_possible_times(hour: int, minute: int, *, afternoon: bool | None) -> frozenset[time]:
    if afternoon is None and not 1 <= hour <= _NOON:
        return frozenset({time(hour, minute)})
    if hour > _NOON:
        return frozenset({time(hour, minute)})
    morning_time = time(hour % _NOON, minute)
    afternoon_time = time(hour % _NOON + _NOON, minute)
    if afternoon is None:
        return frozenset({morning_time, afternoon_time})
    return frozenset({afternoon_time if afternoon else morning_time})


def _parse_noon(match: re.Match[str]) -> Figure:
    return Figure(match[0], times=frozenset({time(0 if match[0].lower() == "midnight" else _NOON)}))


def _parse_weekday(match: re.Match[str]) -> Figure:
    name = match["wd"].lower()
    if name in CHINESE_WEEKDAYS:
        return Figure(match[0], weekday=min(CHINESE_WEEKDAYS.index(name), 6))
    return Figure(match[0], weekday=next(index for index, day in enumerate(WEEKDAYS) if day.startswith(name[:3])))


def _parse_decimal(match: re.Match[str]) -> Figure | None:
    digits = re.sub(r"[, ](?=\d{3})", "", match["n"])
    value = Decimal(digits)
    scales = _SCALED.get((match["scale"] or "").lower(), (1,))
    values = {value * scale for scale in scales}
    values |= {value_without_half + Decimal("0.5") for value_without_half in values} if match["half"] else set()
    return Figure(match[0].strip(), numbers=frozenset(values))


def _parse_fraction(match: re.Match[str]) -> Figure | None:
    denominator = int(match["b"])
    return Figure(match[0], numbers=frozenset({Decimal(match["a"]) / denominator})) if denominator else None


def _parse_chinese_number(match: re.Match[str]) -> Figure | None:
    values = parse_chinese_numeral(match["n"])
    if match["half"]:
        values |= {value + Decimal("0.5") for value in values}
    if not values or match[0] == "一" or match["n"].lstrip("百千万亿") == "一":
        return None
    return Figure(match[0], numbers=values)


def _to_number_set(digits: str) -> frozenset[Decimal]:
    return frozenset({Decimal(digits)})


_MORNINGS: Final = frozenset({"am", "a.m.", "a.m", "上午", "早上", "早晨", "清晨", "凌晨", "早"})
_AFTERNOONS: Final = frozenset({"pm", "p.m.", "p.m", "下午", "晚上", "傍晚", "中午", "夜里", "晚"})
_SCALED: Final = {
    "k": (1, 1_000),
    "m": (1, 1_000_000),
    "mn": (1_000_000,),
    "w": (1, 10_000),
    "bn": (1_000_000_000,),
    "hundred": (100,),
    "thousand": (1_000,),
    "million": (1_000_000,),
    "billion": (1_000_000_000,),
}
_MONTH_NAME: Final = rf"(?P<m>{'|'.join(f'{month}|{month[:3]}' for month in MONTHS)}|sept)\b\.?"
_STANDALONE_MONTH_NAME: Final = _MONTH_NAME.replace("|may|may", "|(?-i:May)")
"""Pattern for month names without a day. Lower-case `may` is excluded, because it is usually a verb."""
_ORDINAL_ENDING: Final = r"(?:st|nd|rd|th)"
_DAY_PATTERN: Final = rf"(?<!\d)(?P<d>\d{{1,2}}){_ORDINAL_ENDING}?(?!\d)"
_FIRST_DAY: Final = rf"(?:(?P<first>\d{{1,2}}){_ORDINAL_ENDING}?\s*(?:-|–|to|and|until)\s*)?"
_YEAR_PATTERN: Final = r"(?P<y>(?:19|20)\d\d)"
_PERIOD: Final = r"(?P<period>上午|早上|早晨|清晨|凌晨|早|下午|晚上|傍晚|中午|夜里|晚)?\s*"
_AM_PM_PATTERN: Final = r"(?P<ap>[ap]\.m\.?|[ap]m)"
_WEEKDAY_NAME: Final = (
    rf"(?P<wd>{'|'.join(WEEKDAYS)}|(?-i:{'|'.join(day[:3].title() for day in WEEKDAYS)}|Tues|Thurs?))"
)
"""Pattern for weekday names. Abbreviations must be capitalized to exclude words such as "sat" and "sun"."""
_HAN_NUMERALS: Final = "".join(CHINESE_DIGITS) + "十百千万亿廿"
_IGNORE_CASE: Final = re.IGNORECASE
_LONG_RUN: Final = re.compile(r"(?<![\d.])\d(?:[ -]?\d){6,}(?![\d.])")

_CHINESE_YEAR: Final = rf"(?P<y>(?:19|20)\d\d|[{''.join(CHINESE_DIGITS)}]{{4}})\s*年\s*"
_DATES: Final[tuple[_Pattern, ...]] = (
    (re.compile(rf"(?<!\d){_YEAR_PATTERN}([-/.])(?P<m>\d{{1,2}})\2(?P<d>\d{{1,2}})(?!\d)"), _parse_date),
    (re.compile(rf"(?<!\d){_YEAR_PATTERN}[-/](?P<m>\d{{1,2}})(?![\d-])"), _parse_date),
    (
        re.compile(
            rf"(?:{_CHINESE_YEAR}的?\s*)?(?P<m>{NUMERAL})\s*月(?:份|\s*(?:(?P<first>{NUMERAL})[日号]?\s*[-–~至到]\s*)?"
            rf"(?P<d>{NUMERAL})\s*[日号]?(?!\d))?"
        ),
        _parse_date,
    ),
    (re.compile(_CHINESE_YEAR), _parse_date),
    (re.compile(rf"(?P<d>{NUMERAL})\s*[日号](?![楼线门店码])"), _parse_date),
    (
        re.compile(rf"\b{_FIRST_DAY}{_DAY_PATTERN}\s+(?:of\s+)?{_MONTH_NAME}(?:,?\s+{_YEAR_PATTERN})?", _IGNORE_CASE),
        _parse_date,
    ),
    (
        re.compile(rf"\b{_MONTH_NAME}\s+(?:the\s+)?{_FIRST_DAY}{_DAY_PATTERN}(?:,?\s+{_YEAR_PATTERN})?", _IGNORE_CASE),
        _parse_date,
    ),
    (re.compile(rf"\b{_MONTH_NAME},?\s+(?:of\s+)?{_YEAR_PATTERN}", _IGNORE_CASE), _parse_date),
    (re.compile(rf"\b{_STANDALONE_MONTH_NAME}", _IGNORE_CASE), _parse_date),
    (re.compile(rf"(?<!\d)(?P<d>\d{{1,2}}){_ORDINAL_ENDING}\b", _IGNORE_CASE), _parse_date),
)
_TIMES: Final[tuple[_Pattern, ...]] = (
    (
        re.compile(
            rf"{_PERIOD}(?<![\d.])(?P<h>\d{{1,2}})[:h](?P<min>\d\d)(?::\d\d)?(?!\d)\s*{_AM_PM_PATTERN}?", _IGNORE_CASE
        ),
        _parse_clock_time,
    ),
    (
        re.compile(rf"(?<![\d.:])(?P<h>\d{{1,2}})(?:\.(?P<min>\d\d))?\s*{_AM_PM_PATTERN}(?!\w)", _IGNORE_CASE),
        _parse_clock_time,
    ),
    (
        re.compile(
            rf"\b(?P<part>half|quarter)[\s-]+(?P<to>past|to)\s+(?P<h>\d{{1,2}})(?!\d)\s*{_AM_PM_PATTERN}?", _IGNORE_CASE
        ),
        _parse_clock_time,
    ),
    (re.compile(r"\b(?P<h>\d{1,2})\s*o'?clock\b", _IGNORE_CASE), _parse_clock_time),
    (
        re.compile(
            rf"{_PERIOD}(?P<h>{NUMERAL})\s*[点點时](?!间)(?:(?P<part>半|一刻|三刻)|(?P<min>{NUMERAL})分?|整|钟)?",
        ),
        _parse_clock_time,
    ),
    (re.compile(r"\b(?:noon|midday|midnight)\b", _IGNORE_CASE), _parse_noon),
)
_SLASHED: Final[_Pattern] = (
    re.compile(r"(?<![\d/.])(?P<a>\d{1,2})/(?P<b>\d{1,2})(?:/(?P<y>\d{4}|\d\d))?(?![\d/])"),
    _parse_slashed_date,
)
_DOTTED: Final[_Pattern] = (
    re.compile(r"(?<![\d.])(?P<a>\d{1,2})\.(?P<b>\d{1,2})\.(?P<y>\d{4})(?!\d)"),
    _parse_slashed_date,
)
_WEEKDAY_PATTERNS: Final[tuple[_Pattern, ...]] = (
    (re.compile(rf"\b{_WEEKDAY_NAME}\b", _IGNORE_CASE), _parse_weekday),
    (re.compile(rf"{CHINESE_WEEK}(?P<wd>[{CHINESE_WEEKDAYS}])"), _parse_weekday),
)
_NUMBERS: Final[tuple[_Pattern, ...]] = (
    (re.compile(r"(?P<a>\d{1,3})\u2044(?P<b>\d{1,3})"), _parse_fraction),
    (
        re.compile(
            rf"(?P<n>(?:\d+(?:\.\d+)?)?[{_HAN_NUMERALS}][\d{_HAN_NUMERALS}]*)(?:[\u4e00-\u9fff]{{0,2}}(?P<half>半))?"
        ),
        _parse_chinese_number,
    ),
    (
        re.compile(
            r"(?P<n>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?: \d{3})+(?!\d)|\d+(?:\.\d+)?)"
            r"(?:\s?(?P<scale>million|billion|thousand|hundred|mn|bn|k|m|w)(?![a-z]))?"
            r"(?P<half>(?:\s+[a-z]+)?\s+and\s+a\s+half|[\u4e00-\u9fff]{0,2}半)?",
            _IGNORE_CASE,
        ),
        _parse_decimal,
    ),
)
_PATTERNS: Final = (*_DATES, _DOTTED, *_TIMES, _SLASHED, *_WEEKDAY_PATTERNS, *_NUMBERS)
