"""Resolve Chinese and English time expressions of a question to time ranges, relative to the time of the question."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime, time, timedelta, tzinfo
from enum import Enum
from typing import Final

from nomemory.text.calendar_names import CHINESE_WEEK, CHINESE_WEEKDAYS, MONTH, WEEKDAY, WEEKDAYS, parse_month
from nomemory.text.normalization import replace_case_lookalikes
from nomemory.text.time_range import ANY_TIME, TimeRange


class TimePrecision(Enum):
    """Precision of a time expression."""

    EXACT = "exact"
    """An exact day or period."""
    VAGUE = "vague"
    """An approximate time, such as "recently" or "last time"."""
    ALWAYS = "always"
    """No time limit, such as "all along"."""


@dataclass(frozen=True, slots=True)
class TimeSignal:
    """A time expression of a question, with its time range."""

    expression: str
    time_range: TimeRange
    precision: TimePrecision


_RangeReader = Callable[[re.Match[str], datetime], TimeRange | None]
_DIGITS: Final = {char: number for number, char in enumerate("零一二三四五六七八九十")} | {"两": 2, "几": 3, "半": 1}
_SEASONS: Final = {"春": 3, "夏": 6, "秋": 9, "冬": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_PARTS_OF_MONTH: Final[dict[str, tuple[int, int | None]]] = {
    "上旬": (1, 10),
    "中旬": (11, 20),
    "下旬": (21, None),
    "初": (1, 10),
    "底": (21, None),
    "末": (21, None),
    "early": (1, 10),
    "mid": (11, 20),
    "late": (21, None),
    "beginning of": (1, 10),
    "middle of": (11, 20),
    "end of": (21, None),
}
"""First and last day of each part of a month. None means the last day of the month."""
_DECEMBER: Final = 12
_MAX_RANGES: Final = 4
_EARLIEST_TIME: Final = datetime(1, 1, 3)  # noqa: DTZ001 - the user's zone is added later; the time can be converted to UTC from any zone
_UNIT_DAYS: Final = {"天": 1, "日": 1, "周": 7, "星期": 7, "礼拜": 7, "月": 30, "年": 365} | {
    "day": 1,
    "night": 1,
    "week": 7,
    "month": 30,
    "year": 365,
}


def find_time_signal(text: str, now: datetime) -> TimeSignal | None:
    """Return the time expression of a question with its range; None if the question has no time expression.

    If a question has several time expressions, dates take precedence over periods, and periods over vague expressions.

    `now` is the timezone-aware time of the question, in the user's zone.
    """
    text = replace_case_lookalikes(text)
    for pattern, read_range, precision in _SIGNALS:
        for match in pattern.finditer(text):
            window = _parse_range(read_range, match, now)
            if window is not None:
                return TimeSignal(match.group().strip(), window, precision)
    return None


def find_exact_time_ranges(text: str, now: datetime) -> tuple[TimeRange, ...]:
    """Return the days and periods in a text, in text order, at most `_MAX_RANGES`.

    If expressions overlap, the first one is used, and among expressions with the same start the longest: "5月3日" is a
    day, not a month.

    `now` is the timezone-aware time of the question, in the user's zone.
    """
    text = replace_case_lookalikes(text)
    matches = [
        (match.start(), -match.end(), number, match, read_range)
        for number, (pattern, read_range, precision) in enumerate(_SIGNALS)
        if precision is TimePrecision.EXACT
        for match in pattern.finditer(text)
    ]
    ranges, end = dict[TimeRange, None](), 0
    for start, negative_end, _, match, read in sorted(matches, key=lambda entry: entry[:3]):
        if start < end:
            continue
        end = -negative_end
        if window := _parse_range(read, match, now):
            ranges[window] = None
    return tuple(ranges)[:_MAX_RANGES]


def _parse_range(read_range: _RangeReader, match: re.Match[str], now: datetime) -> TimeRange | None:
    try:
        return read_range(match, now)
    except (OverflowError, ValueError):  # The date is outside the calendar.
        return None


def build_last_days_range(days: int, now: datetime) -> TimeRange:
    """Return the range of the last `days` days before `now`, clipped to the earliest date that Python supports."""
    earliest = _EARLIEST_TIME.replace(tzinfo=now.tzinfo)
    if now <= earliest:
        return TimeRange(None, now)
    return TimeRange(now - min(timedelta(days=days), now - earliest), now)


def _build_day_range(start: date, end: date | None, now: datetime) -> TimeRange | None:
    """Return the range from `start` up to `end` (exclusive), clipped to `now`; None if `start` is in the future."""
    since = _get_day_start(start, now.tzinfo)
    until = _get_day_start(end, now.tzinfo) if end else now
    return TimeRange(since, min(until, now)) if since < now else None


def _get_day_start(day: date, zone: tzinfo | None) -> datetime:
    return datetime.combine(day, time.min, zone)


def _parse_number(text: str) -> int:
    """Parse a number below 100 in digits or Chinese characters."""
    if text.isdigit():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return _DIGITS.get(text, 3)
    return _DIGITS.get(tens, 1) * 10 + _DIGITS.get(ones, 0)


def _build_month_range(year: int, month: int, now: datetime, months: int = 1) -> TimeRange | None:
    if not 1 <= month <= _DECEMBER or not 1 <= year <= now.year:
        return None
    years, month_after = divmod(month - 1 + months, 12)
    after = date(year + years, month_after + 1, 1) if year + years <= MAXYEAR else None
    return _build_day_range(date(year, month, 1), after, now)


def _build_latest_month_range(month: int, now: datetime) -> TimeRange | None:
    """Return the range of a month in this year, or in the previous year if the month has not begun yet."""
    return _build_month_range(now.year, month, now) or _build_month_range(now.year - 1, month, now)


def _build_single_day_range(year: int, month: int, day: int, now: datetime) -> TimeRange | None:
    try:
        first = date(year, month, day)
        return _build_day_range(first, first + timedelta(days=1), now)
    except (ValueError, OverflowError):
        return None


def _build_latest_day_range(month: int, day: int, now: datetime) -> TimeRange | None:
    return _build_single_day_range(now.year, month, day, now) or _build_single_day_range(now.year - 1, month, day, now)


def _build_year_range(year: int, now: datetime) -> TimeRange | None:
    return _build_month_range(year, 1, now, months=12)


def _build_range_days_ago(days: int, now: datetime, length: int = 1) -> TimeRange | None:
    first = now.date() - timedelta(days=days)
    return _build_day_range(first, first + timedelta(days=length), now)


def _build_range_weeks_ago(weeks: int, now: datetime) -> TimeRange | None:
    return _build_range_days_ago(now.weekday() + 7 * weeks, now, 7)


def _build_range_months_ago(months: int, now: datetime) -> TimeRange | None:
    months = now.year * 12 + now.month - 1 - months
    return _build_month_range(months // 12, months % 12 + 1, now)


def _build_weekday_range(weekday: int, weeks: int, now: datetime) -> TimeRange | None:
    return _build_range_days_ago(now.weekday() + 7 * weeks - weekday, now)


def _parse_chinese_date(match: re.Match[str], now: datetime) -> TimeRange | None:
    year, month, day = match["y"], _parse_number(match["m"]), match["d"]
    if day:
        return (
            _build_single_day_range(_parse_year(year, now), month, _parse_number(day), now)
            if year
            else _build_latest_day_range(month, _parse_number(day), now)
        )
    return _build_month_range(_parse_year(year, now), month, now) if year else _build_latest_month_range(month, now)


def _parse_part_of_month(match: re.Match[str], now: datetime) -> TimeRange | None:
    """Return the range of the first, middle or last third of a month."""
    fields = match.groupdict()
    month = parse_month(match["m"]) if match["m"][0].isascii() and match["m"].isalpha() else _parse_number(match["m"])
    year = fields.get("y")
    month_range = (
        _build_month_range(_parse_year(year, now), month, now) if year else _build_latest_month_range(month, now)
    )
    if month_range is None or month_range.since is None:
        return None
    first, last = _PARTS_OF_MONTH[match["t"].lower()]
    since = month_range.since + timedelta(days=first - 1)
    until = _get_month_end(month_range.since) if last is None else month_range.since + timedelta(days=last)
    return TimeRange(since, min(until, now)) if since < now else None


def _get_month_end(start: datetime) -> datetime:
    return (start + timedelta(days=31)).replace(day=1)


def _parse_year(text: str, now: datetime) -> int:
    years_ago = {"今": 0, "去": 1, "前": 2}
    return now.year - years_ago[text[0]] if text[0] in years_ago else int(text)


def _parse_chinese_season(match: re.Match[str], now: datetime) -> TimeRange | None:
    return _build_month_range(_parse_year(match["y"], now), _SEASONS[match["s"]], now, months=3)


def _parse_iso_date(match: re.Match[str], now: datetime) -> TimeRange | None:
    year, month = int(match["y"]), int(match["m"])
    return (
        _build_single_day_range(year, month, int(match["d"]), now)
        if match["d"]
        else _build_month_range(year, month, now)
    )


def _parse_english_date(match: re.Match[str], now: datetime) -> TimeRange | None:
    fields = match.groupdict()
    month = parse_month(fields["m"])
    day, year = fields.get("d"), fields.get("y")
    if day:
        return (
            _build_single_day_range(int(year), month, int(day), now)
            if year
            else _build_latest_day_range(month, int(day), now)
        )
    return _build_month_range(int(year), month, now) if year else _build_latest_month_range(month, now)


def _parse_english_season(match: re.Match[str], now: datetime) -> TimeRange | None:
    """Return the range of the latest completed season with the given name, or of this year's season for "this"."""
    month = _SEASONS[match["s"].lower()]
    if match["w"].lower() == "this":
        return _build_month_range(now.year, month, now, months=3)
    seasons = (_build_month_range(year, month, now, months=3) for year in (now.year, now.year - 1, now.year - 2))
    return next((season for season in seasons if season and season.until and season.until < now), None)


def _parse_english_period(match: re.Match[str], now: datetime) -> TimeRange | None:
    periods_ago = 0 if match["w"].lower() == "this" else 1
    unit = match["u"].lower()
    if unit == "week":
        return _build_range_weeks_ago(periods_ago, now)
    return (
        _build_range_months_ago(periods_ago, now) if unit == "month" else _build_year_range(now.year - periods_ago, now)
    )


def _parse_english_weekday(match: re.Match[str], now: datetime) -> TimeRange | None:
    weekday = WEEKDAYS.index(match["d"].lower())
    return _build_range_days_ago((now.weekday() - weekday - 1) % 7 + 1, now)


def _parse_time_ago(match: re.Match[str], now: datetime) -> TimeRange | None:
    """Return the range of an expression such as "two weeks ago": one unit long, centered on that time."""
    count, unit = _parse_number(match["n"]), _UNIT_DAYS[match["u"].lower()]
    if not count:
        return None
    return TimeRange(now - timedelta(days=unit * (count + 0.5)), now - timedelta(days=unit * (count - 0.5)))


def _parse_past_period(match: re.Match[str], now: datetime) -> TimeRange | None:
    count = min(_parse_number(match["n"]), 99)
    return build_last_days_range(count * _UNIT_DAYS[match["u"].lower()], now) if count else None


def _build_last_days_parser(days: int) -> _RangeReader:
    return lambda _match, now: build_last_days_range(days, now)


def _parse_any_time(_match: re.Match[str], _now: datetime) -> TimeRange:
    return ANY_TIME


_NUMBER: Final = r"(?P<n>\d{1,2}|[一二两三四五六七八九十几半]{1,3})"
_MONTH: Final = rf"(?P<m>{MONTH}|sept)"
_DAY: Final = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<y>(?:19|20)\d\d)"
_NAMED_YEAR: Final = r"(?P<y>(?:19|20)\d\d|[今去前])年"
_EXACT_EXPRESSIONS: Final[tuple[tuple[str, _RangeReader], ...]] = (
    (r"(?P<y>(?:19|20)\d\d)[-/.](?P<m>\d{1,2})(?:[-/.](?P<d>\d{1,2}))?(?!\d)", _parse_iso_date),
    (
        (
            rf"(?:{_NAMED_YEAR}的?)?(?P<m>\d{{1,2}}|[一二三四五六七八九十]{{1,2}})月份?"
            r"(?P<t>上旬|中旬|下旬|初|底|末)"
        ),
        _parse_part_of_month,
    ),
    (rf"\b(?P<t>early|mid|late|beginning of|middle of|end of)[\s-]+{_MONTH}(?:,?\s+{_YEAR})?\b", _parse_part_of_month),
    (
        (
            rf"(?:{_NAMED_YEAR}的?)?(?P<m>\d{{1,2}}|[一二三四五六七八九十]{{1,2}})月"
            r"(?:份|(?P<d>\d{1,2}|[一二三四五六七八九十]{1,3})[号日])?"
        ),
        _parse_chinese_date,
    ),
    (rf"{_NAMED_YEAR}的?(?P<s>[春夏秋冬])[天季]?", _parse_chinese_season),
    (rf"\b{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})?\b", _parse_english_date),
    (rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?\b", _parse_english_date),
    (rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}\b", _parse_english_date),
    (rf"\b(?:in|during|since|last)\s+{_MONTH}\b(?!,?\s+(?:of\s+)?(?:19|20)\d\d)", _parse_english_date),
    (r"\b(?P<w>last|this)\s+(?P<s>spring|summer|autumn|fall|winter)\b", _parse_english_season),
    (r"大前天", lambda _match, now: _build_range_days_ago(3, now)),
    (r"前天|前晚|\bthe day before yesterday\b", lambda _match, now: _build_range_days_ago(2, now)),
    (r"昨天|昨晚|昨日|昨夜|\byesterday\b|\blast night\b", lambda _match, now: _build_range_days_ago(1, now)),
    (
        r"今天|今早|今晚|今日|\btoday\b|\bthis (?:morning|afternoon|evening)\b",
        lambda _match, now: _build_range_days_ago(0, now),
    ),
    (
        rf"(?P<w>上上|上|这|本)个?{CHINESE_WEEK}(?P<d>[{CHINESE_WEEKDAYS}])",
        lambda match, now: _build_weekday_range(
            min(CHINESE_WEEKDAYS.index(match["d"]), 6), {"上上": 2, "上": 1}.get(match["w"], 0), now
        ),
    ),
    (rf"上上个?{CHINESE_WEEK}", lambda _match, now: _build_range_weeks_ago(2, now)),
    (rf"上个?{CHINESE_WEEK}", lambda _match, now: _build_range_weeks_ago(1, now)),
    (r"上上个?月", lambda _match, now: _build_range_months_ago(2, now)),
    (r"上个?月", lambda _match, now: _build_range_months_ago(1, now)),
    (r"这个?月|本月|当月", lambda _match, now: _build_range_months_ago(0, now)),
    (r"今年", lambda _match, now: _build_year_range(now.year, now)),
    (r"去年", lambda _match, now: _build_year_range(now.year - 1, now)),
    (r"前年", lambda _match, now: _build_year_range(now.year - 2, now)),
    (r"(?P<y>(?:19|20)\d\d)年", lambda match, now: _build_year_range(int(match["y"]), now)),
    (r"\b(?P<w>last|this)\s+(?P<u>week|month|year)\b", _parse_english_period),
    (rf"\blast\s+(?P<d>{WEEKDAY})\b", _parse_english_weekday),
    (rf"\b(?:in|during)\s+{_YEAR}\b", lambda match, now: _build_year_range(int(match["y"]), now)),
    (rf"(?:过去|最近|近)(?:的|这)?{_NUMBER}个?(?P<u>天|日|周|星期|礼拜|月|年)", _parse_past_period),
    (r"\b(?:past|last)\s+(?P<n>\d{1,2})\s+(?P<u>day|week|month|year)s?\b", _parse_past_period),
    (rf"{_NUMBER}个?(?P<u>天|日|周|星期|礼拜|月|年)(?:以|之)?前", _parse_time_ago),
    (r"\b(?P<n>\d{1,2})\s+(?P<u>day|night|week|month|year)s?\s+ago\b", _parse_time_ago),
)
_VAGUE_EXPRESSIONS: Final[tuple[tuple[str, _RangeReader], ...]] = (
    (r"刚才|刚刚|这两天|这几天|\bjust now\b|\bthe past (?:few|couple of) days\b", _build_last_days_parser(2)),
    (
        r"最近|近来|近期|这周|本周|这个?星期|这个?礼拜|这阵子|\brecent(?:ly)?\b|\blately\b|\bthese days\b",
        _build_last_days_parser(7),
    ),
    (
        r"上次|上回|上一次|前几天|前两天|\blast time\b|\bthe other day\b|\bwe last (?:talked|spoke|chatted)\b",
        _build_last_days_parser(30),
    ),
    (
        r"之前|我们聊过|聊到|聊过|前阵子|前段时间|\bearlier\b|\bpreviously\b|\bwe (?:talked|spoke|chatted) about\b",
        _build_last_days_parser(30),
    ),
)
_UNLIMITED_EXPRESSIONS: Final[tuple[tuple[str, _RangeReader], ...]] = (
    (r"一直|习惯|从小|多年|小时候|向来|从来|平时|以前|曾经|总是", _parse_any_time),
    (
        r"\b(?:always|usually|ever|never|habits?|since childhood|for years|as a (?:child|kid)|used to)\b",
        _parse_any_time,
    ),
)
_SIGNALS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), read, precision)
    for precision, table in (
        (TimePrecision.EXACT, _EXACT_EXPRESSIONS),
        (TimePrecision.VAGUE, _VAGUE_EXPRESSIONS),
        (TimePrecision.ALWAYS, _UNLIMITED_EXPRESSIONS),
    )
    for pattern, read in table
)
