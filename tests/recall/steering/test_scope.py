"""Tests for the initial search scope and the preferred role of a skill."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.skills.steering.defaults import UNLIMITED_LOOKBACK, SkillDefaults
from nomemory.recall.skills.steering.steering import PlannerConfiguration
from nomemory.text.time_range import ANY_TIME, TimeRange

NOW = datetime(2026, 3, 14, tzinfo=UTC)
MONTH = PlannerConfiguration(SkillDefaults(timedelta(days=30), Role.ASSISTANT, 20))


def scope(steering: PlannerConfiguration, text: str = "客户怎么说？", **fields: object) -> SearchScope:
    return steering.choose_initial_scope(Question(text, NOW, **fields))  # type: ignore[arg-type]  # of the test's choice


def test_skill_defaults_apply_if_nothing_else_is_specified() -> None:
    assert scope(MONTH) == SearchScope(TimeRange(NOW - timedelta(days=30), NOW), Role.ASSISTANT)
    assert scope(PlannerConfiguration()) == SearchScope()
    assert scope(PlannerConfiguration(SkillDefaults(UNLIMITED_LOOKBACK))) == SearchScope()


def test_caller_and_question_override_the_skill_defaults() -> None:
    window = TimeRange(NOW - timedelta(days=3), NOW)
    assert scope(MONTH, time_range=window, role=Role.SYSTEM) == SearchScope(window, Role.SYSTEM)
    assert scope(MONTH, role=Role.ANY).role is Role.ANY
    assert scope(MONTH, time_range=ANY_TIME).time_range == ANY_TIME
    assert scope(MONTH, "昨天客户怎么说？").time_range == TimeRange(NOW - timedelta(days=1), NOW)


def test_question_about_an_assistant_promise_is_not_restricted_to_one_role() -> None:
    users = PlannerConfiguration(SkillDefaults(role=Role.USER))
    assert scope(users, "你答应了我什么？").role is Role.ANY


@pytest.mark.parametrize("now", [datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 5, tzinfo=UTC), NOW])
@pytest.mark.parametrize("length", [timedelta(seconds=1), timedelta(days=40_000), timedelta(days=999_999_998)])
def test_time_range_does_not_start_before_the_calendar(now: datetime, length: timedelta) -> None:
    window = PlannerConfiguration(SkillDefaults(length)).compute_default_time_range(now)
    assert window is not None
    assert window.until == now
    assert window.since is None or now - window.since <= length


def test_time_range_can_be_shorter_than_a_day() -> None:
    assert PlannerConfiguration(SkillDefaults(timedelta(hours=6))).compute_default_time_range(NOW) == TimeRange(
        NOW - timedelta(hours=6), NOW
    )


def test_the_page_size_of_a_skill_is_used() -> None:
    assert MONTH.choose_page_size(50) == 20
    assert PlannerConfiguration().choose_page_size(50) == 50
