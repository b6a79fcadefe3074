"""Tests for the parsing of the defaults of a skill."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nomemory.recall.model.question import Role
from nomemory.recall.skills.steering.defaults import UNLIMITED_LOOKBACK, SkillDefaults, parse_duration
from nomemory.recall.skills.steering.steering import PlannerConfiguration, read_planner_configuration


def read(*lines: str, heading: str = "## Defaults") -> PlannerConfiguration:
    return read_planner_configuration({"SKILL.md": "\n".join((heading, *lines))})


def defaults(*lines: str, heading: str = "## Defaults") -> SkillDefaults:
    steering = read(*lines, heading=heading)
    assert steering.invalid_entries == ()
    return steering.defaults


def test_all_three_defaults_are_parsed() -> None:
    assert defaults("", "- time_range_default: P30D", "- role_default: user", "- top_k_default: 20") == SkillDefaults(
        timedelta(days=30), Role.USER, 20
    )


@pytest.mark.parametrize(
    "heading",
    [
        "## Defaults",
        "## defaults · 默认值",
        "## 默认值 · Defaults",
        "# 默认值",
        "## 3. Defaults",
        "## **Defaults** (默认值)",
        "##  DEFAULTS ",
        "## 默认值/Defaults",
    ],
)
def test_headings_are_accepted_in_either_language(heading: str) -> None:
    assert defaults("- top_k_default: 20", heading=heading).top_k == 20


@pytest.mark.parametrize(
    "heading", ["## Default behaviour", "## My defaults", "### Defaults", "Defaults", "##Defaults"]
)
def test_other_headings_set_no_defaults(heading: str) -> None:
    assert defaults("- top_k_default: 20", heading=heading).top_k is None


@pytest.mark.parametrize(
    "line",
    [
        "- role_default: assistant",
        "* role_default：assistant",
        "+ **role_default**: `assistant`",
        "1. `role_default`: **assistant** (what was promised)",
        "  - Role_Default:   Assistant, usually",
        "- role: assistant · 助手",
        "- 角色：助手（承诺）",
        "- role-default: ａｓｓｉｓｔａｎｔ",
    ],
)
def test_entries_are_parsed_in_every_notation(line: str) -> None:
    assert defaults(line).role is Role.ASSISTANT


@pytest.mark.parametrize("name", ["tool", "工具"])
def test_role_default_can_be_tool(name: str) -> None:
    assert defaults(f"- role_default: {name}").role is Role.TOOL


def test_table_header_is_not_an_entry() -> None:
    table = ("| key | value |", "|---|:-:|", "| top_k_default | 7 |", "| time_range_default | P1W |")
    assert defaults(*table).top_k == 7
    assert defaults(*table).lookback == timedelta(days=7)


@pytest.mark.parametrize("value", ["all", "全部", "ALL", "any", "不限（任何时间）"])
def test_unlimited_time_range_can_be_set(value: str) -> None:
    assert defaults(f"- time_range_default: {value}").lookback == UNLIMITED_LOOKBACK


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("P30D", timedelta(days=30)),
        ("P2W", timedelta(days=14)),
        ("P6M", timedelta(days=180)),
        ("P1Y2M3W4DT5H6M7S", timedelta(days=365 + 60 + 21 + 4, hours=5, minutes=6, seconds=7)),
        ("PT12H", timedelta(hours=12)),
        ("p1d", timedelta(days=1)),
        ("P999999Y", timedelta(days=999_999 * 365)),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P0D", None),
        ("P1.5D", None),
        ("P-1D", None),
        ("30D", None),
        ("P1H", None),
        ("P9999999D", None),
        ("P1D2Y", None),
        ("P٣D", None),
        ("", None),
        ("thirty days", None),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, length: timedelta | None) -> None:
    assert parse_duration(text) == length


def test_the_longest_duration_is_accepted() -> None:
    assert parse_duration("P999999Y999999M999999W999999DT999999H999999M999999S")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("- time_range_default: 30 days", "ISO 8601"),
        ("- time_range_default:", "ISO 8601"),
        ("- role_default: everybody", "one of `user`"),
        ("- top_k_default: many", "an integer from 1"),
        ("- top_k_default: 0", "an integer from 1"),
        ("- top_k_default: 201", "from 1 to 200"),
        ("- top_k_default: -3", "an integer from 1"),
        ("- top_k_default: 1e9", "an integer from 1"),
        ("- top_k: " + "9" * 400, "an integer from 1"),
        ("- frobnicate: 3", "unknown default"),
    ],
)
def test_unreadable_line_is_reported_with_its_number(line: str, why: str) -> None:
    steering = read("Some prose.", line)
    (entry,) = steering.invalid_entries
    assert (entry.file, entry.line) == ("SKILL.md", 3)
    assert why in entry.problem
    assert steering.notes == (f"`SKILL.md` line 3: {entry.problem}",)
    assert (steering.defaults.lookback, steering.defaults.role, steering.defaults.top_k) == (None, None, None)


def test_first_of_duplicate_entries_is_used() -> None:
    steering = read("- role_default: user", "- role_default: any")
    assert steering.defaults.role is Role.USER
    assert [item.line for item in steering.invalid_entries] == [3]


def test_prose_about_defaults_sets_none() -> None:
    lines = (
        "There is no default range: choose it.",
        "- 时间范围和角色都没有默认值：由你选定。",
        "- 预算：3 轮，6 条证据。",
        "- Budgets are the host's.",
        "time_range_default: P30D",
        "<!--",
        "- top_k_default: x",
        "-->",
        "```",
        "- role_default: x",
        "```",
    )
    assert defaults(*lines) == SkillDefaults()


def test_frontmatter_and_other_sections_are_left_out() -> None:
    text = "---\n## Defaults\n- top_k_default: 1\n---\n## Playbook\n- top_k_default: 2\n"
    assert (
        read_planner_configuration({"SKILL.md": text, "references/a.md": "## Defaults\n- top_k_default: 3"})
        == PlannerConfiguration()
    )
