"""Tests for the days and periods in a text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nomemory.text.time_expressions import find_exact_time_ranges

NOW = datetime(2026, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("在2025年3月4日发生了什么", [("2025-03-04", "2025-03-05")]),
        ("5月中旬与好友", [("2025-05-11", "2025-05-21")]),
        ("十月和11月上旬", [("2025-10-01", "2025-11-01"), ("2025-11-01", "2025-11-11")]),
        ("2月底", [("2025-02-21", "2025-03-01")]),
        ("late May 2025 and on June 3rd", [("2025-05-21", "2025-06-01"), ("2025-06-03", "2025-06-04")]),
        ("What did Bob buy in January 1970?", [("1970-01-01", "1970-02-01")]),
        ("上周三", [("2025-12-24", "2025-12-25")]),
        ("what do I like", []),
    ],
)
def test_every_period_of_a_text_is_found(text: str, ranges: list[tuple[str, str]]) -> None:
    found_ranges = find_exact_time_ranges(text, NOW)
    assert [(f"{period.since:%Y-%m-%d}", f"{period.until:%Y-%m-%d}") for period in found_ranges] == ranges


def test_future_period_is_ignored() -> None:
    assert find_exact_time_ranges("2026年8月", NOW) == ()
