"""Tests for the parsing of times and durations, and for paging options."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.cli import options
from nomemory.cli.options import Paging, parse_duration, parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-01", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-01T08:30", datetime(2024, 5, 1, 8, 30, tzinfo=UTC)),
        ("2024-05-01 08:30:15", datetime(2024, 5, 1, 8, 30, 15, tzinfo=UTC)),
        ("2024-05-01T08:30:00Z", datetime(2024, 5, 1, 8, 30, tzinfo=UTC)),
        ("2024-05-01T08:30+08:00", datetime(2024, 5, 1, 0, 30, tzinfo=UTC)),
    ],
)
def test_date_or_time_is_accepted_as_a_timestamp(text: str, expected: datetime) -> None:
    assert parse_time(text) == expected


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("7d", timedelta(days=7)),
        ("12h", timedelta(hours=12)),
        ("30m", timedelta(minutes=30)),
        ("1w", timedelta(days=7)),
        ("0s", timedelta(0)),
    ],
)
def test_duration_is_accepted_as_a_relative_timestamp(text: str, ago: timedelta) -> None:
    before = datetime.now(UTC)
    assert before <= parse_time(text) + ago <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7y", "-7d", "2024-13-01", "999999w", "昨天", "1.5h"])
def test_invalid_timestamps_are_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time"):
        parse_time(text)


@given(st.text())
def test_arbitrary_text_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(click.BadParameter):
        assert parse_time(text).tzinfo is not None


@pytest.mark.parametrize(
    ("text", "expected"), [("1s", timedelta(seconds=1)), ("5m", timedelta(minutes=5)), ("2h", timedelta(hours=2))]
)
def test_duration_is_a_number_and_a_unit(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5m"])
def test_invalid_durations_are_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter, match="not a duration"):
        parse_duration(text)


def test_durations_of_more_than_a_thousand_years_are_rejected() -> None:
    with pytest.raises(click.BadParameter, match="longer than 1,000 years"):
        parse_duration("999999w")


@dataclass(frozen=True)
class Numbers:
    """A page of a listing of numbers."""

    items: list[int]
    next_cursor: str


class Listing:
    """Numbers from 0 in pages. The cursor is the next number. Records the requested page sizes."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.sizes: list[int] = []

    def page(self, page_size: int, cursor: str) -> Numbers:
        self.sizes.append(page_size)
        start = int(cursor or 0)
        end = min(start + page_size, self._length)
        return Numbers(list(range(start, end)), str(end) if end < self._length else "")


@given(length=st.integers(0, 60), limit=st.integers(0, 70), page_limit=st.integers(1, 20))
def test_paging_returns_exactly_the_limit_and_a_cursor_for_the_rest(length: int, limit: int, page_limit: int) -> None:
    listing = Listing(length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "PAGE_MAX", page_limit)
        pages = list(Paging(limit, "").fetch_pages(listing.page))
    expected = min(limit or length, length)
    assert [number for page in pages for number in page.items] == list(range(expected))
    assert pages[-1].next_cursor == (str(expected) if expected < length else "")
    assert max(listing.sizes) <= page_limit


def test_paging_starts_at_the_cursor() -> None:
    (page,) = Paging(5, "7").fetch_pages(Listing(10).page)
    assert page.items == [7, 8, 9]
