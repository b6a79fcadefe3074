"""How a skill's query templates are read, and which one a question gets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nomemory.recall.intent.intent import read_intent
from nomemory.recall.skills.steering.steering import Steering, read_steering
from nomemory.recall.skills.steering.template import Rewrite, Template, TemplateIntent
from nomemory.text.question_reading import QuestionReading

NOW = datetime(2026, 3, 14, tzinfo=UTC)


def read(*lines: str) -> Steering:
    return read_steering({"SKILL.md": "\n".join(("## Query Templates · 查询模板", *lines))})


def template(*lines: str) -> Template:
    steering = read(*lines)
    assert steering.unreadable == ()
    (one,) = steering.templates
    return one


def test_a_template_has_its_lines() -> None:
    assert template(
        "Prose.",
        "### preferences · 偏好",
        "- first: semantic_search",
        "- rewrite: {question} 喜欢 不喜欢",
        "- rewrite: {words}",
        "- neighbors: true",
    ) == Template(
        TemplateIntent.PREFERENCES,
        "semantic_search",
        (Rewrite("{question} 喜欢 不喜欢", 5), Rewrite("{words}", 6)),
        neighbors=True,
        file="SKILL.md",
        line=3,
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
        ("### 日程", "| 首选 | messages_list |", "| 改写 | {words} 截止 |", "| 邻近 | 否 |"),
        ("| intent | first | rewrite | neighbours |", "|--|--|--|--|", "| 日程 | messages_list | {words} 截止 | no |"),
    ],
)
def test_templates_are_read_however_they_are_written(lines: tuple[str, ...]) -> None:
    one = template(*lines)
    assert (one.intent, one.first, one.neighbors) == (TemplateIntent.SCHEDULE, "messages_list", False)
    assert [rewrite.text for rewrite in one.rewrites] == ["{words} 截止"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("- first: grep", "`first` is one of"),
        ("- first: neighbors", "needs a message"),
        ("- rewrite:", "1 to 200"),
        ("- rewrite: " + "x" * 201, "1 to 200"),
        ("- rewrite: {user_id} {question}", "no placeholders but"),
        ("- rewrite: {question.__class__}", "no placeholders but"),
        ("- rewrite: {}", "no placeholders but"),
        ("- neighbors: when it helps", "`true` or `false`"),
        ("- frist: lexical_search", "nothing but"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(line: str, why: str) -> None:
    steering = read("### profile", line)
    assert [(one.file, one.line) for one in steering.unreadable] == [("SKILL.md", 3)]
    assert why in steering.unreadable[0].why


def test_an_intent_that_nobody_knows_is_said_where_it_stands() -> None:
    steering = read("### moods", "- first: semantic_search", "### notes", "Just prose.", "| hobby | semantic_search |")
    assert [one.line for one in steering.unreadable] == [2, 4]
    assert steering.templates == ()


def test_the_number_of_rewrites_is_limited() -> None:
    steering = read("### profile", *(f"- rewrite: {number}" for number in range(9)))
    assert len(steering.templates[0].rewrites) == 4
    assert steering.unreadable_count == 5


def test_a_rewrite_is_filled_in_once() -> None:
    rewrite = Rewrite("{question} and {words}; {question}", 1)
    assert rewrite.query("{words}?", "{question}") == "{words}? and {question}; {words}?"
    assert len(rewrite.query("x" * 9_000, "y")) == 1_000


@pytest.mark.parametrize(
    ("question", "intent"),
    [
        ("我喜欢什么？", TemplateIntent.PREFERENCES),
        ("按我喜欢的格式总结一下", TemplateIntent.PREFERENCES),
        ("What is my job?", TemplateIntent.PROFILE),
        ("那个项目进展怎样了？", TemplateIntent.PROFILE),
        ("What am I allergic to?", TemplateIntent.CONSTRAINTS),
        ("我有什么会议？", TemplateIntent.SCHEDULE),
        ("你答应了我什么？", None),
        ("小明是谁？", None),
    ],
)
def test_a_question_gets_the_template_of_what_it_is_after(question: str, intent: TemplateIntent | None) -> None:
    steering = read(*(f"### {intent.value}" for intent in TemplateIntent))
    found = steering.template(read_intent(QuestionReading(question, NOW)))
    assert (found.intent if found else None) is intent


def test_the_strongest_hypothesis_that_has_a_template_counts() -> None:
    intent = read_intent(QuestionReading("我有什么饮食忌口？", NOW))
    assert read("### preferences", "### profile").template(intent) == Template(
        TemplateIntent.PREFERENCES, file="SKILL.md", line=2
    )
    assert read("### profile").template(intent) is None
