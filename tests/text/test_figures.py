"""Tests for the parsing of numbers and dates in any script or notation."""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.figures import PartialDate, find_figures
from nomemory.text.numerals import parse_chinese_numeral, replace_number_words
from nomemory.text.relative_dates import complete_dates, find_relative_dates

_DIGITS = "零一二三四五六七八九"
_UNITS = ("", "十", "百", "千")
_MYRIADS = ("", "万", "亿")
_SMALL = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_chinese(number: int) -> str:
    """Format a positive number as a Chinese numeral."""
    groups: list[str] = []
    for myriad in _MYRIADS:
        number, group = divmod(number, 10_000)
        if group:
            groups.insert(0, _group(group, leads=not number) + myriad)
        elif groups and not groups[0].startswith("零"):
            groups[0] = "零" + groups[0]
    return "".join(groups).strip("零")


def _group(number: int, *, leads: bool) -> str:
    written, gap = "", False
    for power in range(3, -1, -1):
        digit = number // 10**power % 10
        if digit:
            written += ("零" if gap else "") + _DIGITS[digit] + _UNITS[power]
            gap = False
        else:
            gap = bool(written) or not leads
    return written


def in_english(number: int) -> str:
    """Format a number below a million in English words."""
    if number < 20:
        return _SMALL[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_SMALL[ones]}" if ones else "")
    for unit, name in ((1_000, "thousand"), (100, "hundred")):
        if number >= unit:
            above, below = divmod(number, unit)
            rest = (" and " if unit == 100 else " ") + in_english(below) if below else ""
            return f"{in_english(above)} {name}{rest}"
    raise AssertionError(number)


@given(st.integers(1, 999_999_999_999))
def test_chinese_numerals_are_parsed(number: int) -> None:
    assert Decimal(number) in parse_chinese_numeral(in_chinese(number))


@given(st.integers(2, 999_999))
def test_english_number_words_are_parsed(number: int) -> None:
    assert replace_number_words(f"paid {in_english(number)} euros") == f"paid {number} euros"


@given(st.integers(0, 10**12))
def test_notations_of_a_number_are_the_same_number(number: int) -> None:
    full_width = str(number).translate(str.maketrans("0123456789", "０１２３４５６７８９"))
    for written in (f"{number}", f"{number:,}", f"€{number}", full_width):
        (figure,) = find_figures(f"= {written} in all")
        assert Decimal(number) in figure.numbers, written


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("三千八", "3800"),
        ("一百五", "150"),
        ("三万二", "32000"),
        ("三千零八", "3008"),
        ("1.2万", "12000"),
        ("3万8", "38000"),
        ("两百", "200"),
        ("2.5k", "2500"),
        ("a dozen", "12"),
        ("two and a half", "2.5"),
        ("两年半", "2.5"),
        ("½", "0.5"),
        ("百分之二十", "20"),
        ("嗯……三个人", "3"),
        ("fİve", "5"),
        ("sıx", "6"),
    ],
)
def test_numbers_are_read_in_any_notation(text: str, number: str) -> None:
    (figure,) = find_figures(text)
    assert Decimal(number) in figure.numbers


@pytest.mark.parametrize("text", ["一起去", "one of them", "万一下雨", "it may rain", "千万别忘"])
def test_numbers_within_words_are_ignored(text: str) -> None:
    assert find_figures(text) == []


@given(st.dates(date(1950, 1, 1), date(2090, 1, 1)))
def test_notations_of_a_date_are_the_same_date(day: date) -> None:
    month_name = f"{day:%B}"
    spellings = (
        f"{day.isoformat()}",
        f"{day.year}年{day.month}月{day.day}日",
        f"{day.day} {month_name} {day.year}",
        f"{month_name} {day.day}, {day.year}",
        f"{day.day} {month_name[:3]} {day.year}",
        f"{day.year}年{in_chinese(day.month)}月{in_chinese(day.day)}号",
    )
    for written in spellings:
        (figure,) = find_figures(f"on {written}.")
        assert figure.dates == {PartialDate(day.year, day.month, day.day)}, written


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("下午三点", {time(15)}),
        ("15:00", {time(15)}),
        ("3 pm", {time(15)}),
        ("three o'clock", {time(3), time(15)}),
        ("三点半", {time(3, 30), time(15, 30)}),
        ("half past ten", {time(10, 30), time(22, 30)}),
        ("quarter to nine", {time(8, 45), time(20, 45)}),
        ("晚上8点20分", {time(20, 20)}),
        ("noon", {time(12)}),
    ],
)
def test_times_of_day_are_read_in_any_notation(text: str, times: set[time]) -> None:
    (figure,) = find_figures(text)
    assert figure.times == times


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("yesterday", ["2025-05-01"]),
        ("the day after tomorrow", ["2025-05-04"]),
        ("后天", ["2025-05-04"]),
        ("下周三", ["2025-05-07"]),
        ("last Friday", ["2025-04-25", "2025-05-02"]),
        ("in three weeks", ["2025-05-23"]),
        ("两周后", ["2025-05-16"]),
        ("10 days ago", ["2025-04-22"]),
        ("a week ago", ["2025-04-25"]),
        ("one day later", ["2025-05-03"]),
        ("下个月", []),
    ],
)
def test_relative_dates_are_resolved_from_the_message_date(text: str, days: list[str]) -> None:
    dates = find_relative_dates(text, date(2025, 5, 2))
    assert set(days) <= {str(item.to_calendar_day()) for item in dates if item.to_calendar_day()}


def test_date_without_a_year_is_resolved_near_the_message_date() -> None:
    near = set(complete_dates(PartialDate(None, 1, 3), date(2025, 12, 20)))
    assert {PartialDate(2025, 1, 3), PartialDate(2026, 1, 3)} <= near


@given(st.text(max_size=80))
def test_arbitrary_text_is_parsed(text: str) -> None:
    find_figures(text)
    find_relative_dates(text, date(2025, 5, 2))
