"""Tests for time expressions and their ranges in the time zone of the question."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.time_expressions import TimePrecision, build_last_days_range, find_time_signal
from nomemory.text.time_range import ANY_TIME

ZONE = ZoneInfo("Asia/Shanghai")
NOW = datetime(2026, 3, 14, 10, tzinfo=ZONE)  # a Saturday


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("2025年8月我说了什么", "2025-08-01", "2025-09-01"),
        ("8月3号的安排", "2025-08-03", "2025-08-04"),
        ("2025-08-03 那天", "2025-08-03", "2025-08-04"),
        ("2025/12", "2025-12-01", "2026-01-01"),
        ("去年十二月二十三号", "2025-12-23", "2025-12-24"),
        ("去年夏天", "2025-06-01", "2025-09-01"),
        ("去年", "2025-01-01", "2026-01-01"),
        ("前年的事", "2024-01-01", "2025-01-01"),
        ("昨天", "2026-03-13", "2026-03-14"),
        ("前天", "2026-03-12", "2026-03-13"),
        ("上周", "2026-03-02", "2026-03-09"),
        ("上周三", "2026-03-04", "2026-03-05"),
        ("上个月", "2026-02-01", "2026-03-01"),
        ("in March 2023", "2023-03-01", "2023-04-01"),
        ("on March 3rd", "2026-03-03", "2026-03-04"),
        ("on 3 March 2023", "2023-03-03", "2023-03-04"),
        ("in May", "2025-05-01", "2025-06-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("last week", "2026-03-02", "2026-03-09"),
        ("last month", "2026-02-01", "2026-03-01"),
        ("last summer", "2025-06-01", "2025-09-01"),
        ("last winter", "2025-12-01", "2026-03-01"),
        ("last Friday", "2026-03-13", "2026-03-14"),
        ("yesterday", "2026-03-13", "2026-03-14"),
    ],
)
def test_date_or_period_is_its_exact_interval(text: str, since: str, until: str) -> None:
    signal = find_time_signal(text, NOW)
    assert signal is not None
    assert signal.precision is TimePrecision.EXACT
    assert signal.time_range.since == datetime.fromisoformat(since).replace(tzinfo=ZONE)
    assert signal.time_range.until == datetime.fromisoformat(until).replace(tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("刚才说的", 2),
        ("这两天", 2),
        ("最近有什么事", 7),
        ("what have I been up to recently", 7),
        ("我们上次聊到的项目", 30),
        ("the project we talked about last time", 30),
        ("之前说过", 30),
        ("最近两周", 14),
        ("in the past 3 days", 3),
    ],
)
def test_vague_time_expressions_cover_a_number_of_days(text: str, days: int) -> None:
    signal = find_time_signal(text, NOW)
    assert signal is not None
    assert signal.time_range.since == NOW - timedelta(days=days)
    assert signal.time_range.until == NOW


@pytest.mark.parametrize("text", ["我一直这样吗", "从小的习惯", "I always do", "have I ever", "多年"])
def test_always_expressions_mean_any_time(text: str) -> None:
    signal = find_time_signal(text, NOW)
    assert signal is not None
    assert signal.time_range == ANY_TIME


@pytest.mark.parametrize("text", ["我不吃辣", "May I ask what I eat", "13月", "February 30", "2031-01-01", "march on"])
def test_text_without_a_past_time_has_no_time_range(text: str) -> None:
    assert find_time_signal(text, NOW) is None


def test_current_period_ends_now() -> None:
    signal = find_time_signal("这个月", NOW)
    assert signal is not None
    assert signal.time_range.until == NOW


def test_exact_date_takes_precedence_over_vague_expressions() -> None:
    signal = find_time_signal("最近，尤其是3月3号", NOW)
    assert signal is not None
    assert signal.expression == "3月3号"


def test_yesterday_depends_on_the_time_zone_of_the_question() -> None:
    late = datetime(2026, 3, 14, 18, tzinfo=UTC)
    in_london, in_shanghai = find_time_signal("昨天", late), find_time_signal("昨天", late.astimezone(ZONE))
    assert in_london is not None
    assert in_shanghai is not None
    assert in_shanghai.time_range.since != in_london.time_range.since


@pytest.mark.parametrize("text", ["近0周", "过去00天", "0天前", "last 0 days", "0 days ago"])
def test_a_text_without_a_time_has_no_time_signal(text: str) -> None:
    assert find_time_signal(text, NOW) is None


@given(
    st.text(alphabet="今去前年上下这个周月日号天最近一二三十0123456789-/ lastweekinMarch", max_size=40),
    st.datetimes(timezones=st.just(UTC)),
)
def test_time_ranges_are_ordered_and_end_by_now(text: str, now: datetime) -> None:
    signal = find_time_signal(text, now)
    if signal is not None and signal.time_range.since is not None:
        assert signal.time_range.until is not None
        assert signal.time_range.since < signal.time_range.until <= now


@pytest.mark.parametrize("hours", [-12, 0, 14])
@pytest.mark.parametrize("days_in", [0, 1, 3, 30, 200])
def test_time_range_is_clamped_to_the_calendar_start(hours: int, days_in: int) -> None:
    now = datetime(1, 1, 1, 15, tzinfo=timezone(timedelta(hours=hours))) + timedelta(days=days_in)
    for days in (7, 30, 180, 99 * 365):
        window = build_last_days_range(days, now)
        assert window.until == now
        assert window.since is None or window.since.astimezone(UTC) < now


@pytest.mark.parametrize(
    ("text", "since"), [("今年", (1, 1)), ("this year", (1, 1)), ("十二月", (12, 1)), ("in December", (12, 1))]
)
def test_last_calendar_year_is_supported(text: str, since: tuple[int, int]) -> None:
    now = datetime(9999, 12, 31, 10, tzinfo=ZONE)
    signal = find_time_signal(text, now)
    assert signal is not None
    assert signal.time_range.since == datetime(9999, *since, tzinfo=ZONE)
    assert signal.time_range.until == now
