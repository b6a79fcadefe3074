"""Tests for the parsing and selection of query templates."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nomemory.recall.skills.steering.steering import PlannerConfiguration, read_planner_configuration
from nomemory.recall.skills.steering.template import QueryTemplate
from nomemory.text.question_analysis import QuestionAnalysis

NOW = datetime(2026, 3, 14, tzinfo=UTC)


def read(*lines: str) -> PlannerConfiguration:
    return read_planner_configuration({"SKILL.md": "\n".join(("## Query Templates · 查询模板", *lines))})


def template(*lines: str) -> QueryTemplate:
    steering = read(*lines)
    assert steering.invalid_entries == ()
    (parsed,) = steering.templates
    return parsed


def test_template_is_parsed_from_the_entries_under_a_heading() -> None:
    assert template(
        "Prose.",
        "### preferences · 偏好",
        "- first: semantic_search",
        "- rewrite: {question} 喜欢 不喜欢",
        "- rewrite: {words}",
        "- neighbors: true",
    ) == QueryTemplate(
        "preferences · 偏好", "semantic_search", ("{question} 喜欢 不喜欢", "{words}"), reads_neighbors=True
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("### schedule", "- first_tool: messages_list", "- rewrite: {words} 截止", "- neighbours: no"),
        ("### 日程", "* **首选**：`messages_list`（先看时间）", "* 改写：{words} 截止", "* 邻近：否"),
        (
            "#### 4. Schedule / 日程",
            "1. First tool: Messages_List",
            "2. Rewrite: `{words} 截止`",
            "3. neighbors: False",
        ),
        ("### 日程", "| | |", "|--|--|", "| 首选 | messages_list |", "| 改写 | {words} 截止 |", "| 邻近 | 否 |"),
    ],
)
def test_templates_are_parsed_in_every_notation(lines: tuple[str, ...]) -> None:
    parsed = template(*lines)
    assert (parsed.first_tool, parsed.rewrites, parsed.reads_neighbors) == ("messages_list", ("{words} 截止",), False)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("- first: grep", "`first` must be one of"),
        ("- first: neighbors", "needs a message"),
        ("- rewrite:", "1 to 200"),
        ("- rewrite: " + "x" * 201, "1 to 200"),
        ("- rewrite: {user_id} {question}", "supports only the placeholders"),
        ("- rewrite: {question.__class__}", "supports only the placeholders"),
        ("- rewrite: {}", "supports only the placeholders"),
        ("- neighbors: when it helps", "`true` or `false`"),
        ("- frist: lexical_search", "unknown key"),
    ],
)
def test_unreadable_line_is_reported_with_its_number(line: str, why: str) -> None:
    steering = read("### profile", line)
    assert [(item.file, item.line) for item in steering.invalid_entries] == [("SKILL.md", 3)]
    assert why in steering.invalid_entries[0].problem


def test_heading_with_only_prose_is_not_a_template() -> None:
    assert read("### moods", "- first: semantic_search", "### notes", "Just prose.").templates == (
        QueryTemplate("moods", "semantic_search"),
    )


def test_the_number_of_rewrites_is_limited() -> None:
    steering = read("### profile", *(f"- rewrite: {number}" for number in range(9)))
    assert len(steering.templates[0].rewrites) == 4
    assert steering.invalid_count == 5


def test_rewrite_placeholders_are_substituted_once() -> None:
    rewriting = QueryTemplate("", rewrites=("{question} and {words}; {question}",))
    assert rewriting.build_queries("{words}?", "{question}") == ["{words}? and {question}; {words}?"]
    assert len(rewriting.build_queries("x" * 9_000, "y")[0]) == 1_000


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("我喜欢什么？", "preferences"),
        ("What do I like best?", "preferences"),
        ("我的时间安排？", "日程"),
        ("客户什么时候截止？", "日程"),
        ("我有什么会议？", "日程"),
        ("小明是谁？", None),
    ],
)
def test_template_with_most_matching_words_is_selected(question: str, title: str | None) -> None:
    steering = read(
        "### preferences",
        "- rewrite: {question} 喜欢 讨厌 like hate",
        "### 日程",
        "- rewrite: {words} 截止 约好的时间",
        "## Lexicon",
        "- 截止: 会议",
    )
    selected = steering.select_template(QuestionAnalysis(question, NOW))
    assert (selected.title if selected else None) == title
