"""Tests for the content and the examples of the default skill."""

from __future__ import annotations

import json
import re
from datetime import UTC
from pathlib import Path

import pytest

from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.reading.answer import parse_answer
from nomemory.recall.skills.loader import SkillLibrary

ROOT = Path(__file__).parents[3]
SKILL = SkillLibrary([ROOT / "skills"], "nomemory-recall-default").load()
EXAMPLES = SKILL.references["scripts/tool_call_examples.md"]
QUESTIONS = (
    "你记得我有什么饮食偏好吗？",
    "我是不是说过我不吃辣？",
    "按我喜欢的格式总结一下上面的内容",
    "你还记得我在哪里工作/做什么职业吗？",
    "我们上次聊到的那个项目进展怎样了？",
    "我最近有什么重要日程/要办的事？",
)


def json_lines(text: str) -> list[str]:
    return [line for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


def test_default_skill_loads_without_notes() -> None:
    assert SKILL.name == "nomemory-recall-default"
    assert SKILL.notes == ()


def test_frontmatter_has_only_name_and_description() -> None:
    lines = (ROOT / "skills" / SKILL.name / "SKILL.md").read_text("utf-8").splitlines()
    assert [line.partition(":")[0] for line in lines[: lines.index("---", 1)]] == ["---", "name", "description"]


@pytest.mark.parametrize(
    "fact",
    [
        "messages_list",
        "lexical_search",
        "semantic_search",
        "neighbors",
        "next_cursor",
        "user_id",
        "2–7 天",
        "14–30 天",
        "180 天",
        "7 → 30 → 180",
        "before 8, after 0",
        "3 轮，6 条证据",
        "观察 · Observe",
        "反思 · Reflect",
        "决定 · Decide",
        "ISO 8601",
        *QUESTIONS,
    ],
)
def test_default_skill_states_every_fact(fact: str) -> None:
    assert fact in SKILL.body


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_example_calls(question: str) -> None:
    section = EXAMPLES.partition(question)[2].partition("\n## ")[0]
    assert len(json_lines(section)) >= 3


@pytest.mark.parametrize("line", json_lines(EXAMPLES))
def test_every_example_call_is_valid(line: str) -> None:
    stop = json.loads(line)
    assert set(stop) == {"stop", "tool", "args"}
    assert bool(parse_answer(line, str, UTC).calls) is not stop["stop"]


def test_examples_in_the_default_skill_are_valid() -> None:
    call, view = json_lines(SKILL.body)
    assert parse_answer(call, str, UTC).calls[0].tool == "lexical_search"
    draft = parse_answer(view, str, UTC).draft
    assert draft.verdict is Verdict.SUPPORTED
    assert draft.statements[0].citations[0].quote == "我不吃辣"
