"""Tests that arbitrary text can be parsed as a skill in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.skills.steering.steering import read_planner_configuration

KB64 = 64 * 1024
PIECES = (
    "## Defaults\n", "## 词表\n", "## Query Templates\n", "### preferences\n", "- ", "* ", "1. ", ":", "：", "|",
    "|---|", "\n", "```", "<!--", "-->", "---\n", "time_range_default", "role_default", "top_k_default", "P30D", "P",
    "first", "rewrite", "neighbors", "{", "}", "{question}", '"', "(", ")", "-", "客户", "client", ",", "、", "\0",
    "\ud800", "\u2028", "İ", "ß", "\r\n",
)  # fmt: skip
ENTRIES = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=60).map("".join)


@given(ENTRIES, ENTRIES, st.text(max_size=40))
def test_arbitrary_text_is_parsed_without_an_error(skill: str, lexicon: str, question: str) -> None:
    steering = read_planner_configuration({"SKILL.md": skill, "references/lexicon.md": lexicon})
    for item in steering.invalid_entries:
        text = lexicon if item.file == "references/lexicon.md" else skill
        assert 1 <= item.line <= text.count("\n") + 1
    assert len(steering.find_synonyms(question + lexicon)) <= 16
    for template in steering.templates:
        template.build_queries(question, skill)


@pytest.mark.parametrize(
    "body",
    [
        "## Lexicon\n" + "\n".join(f"- a{number}: b{number},c{number},d{number}" for number in range(3_000)),
        "## Lexicon\n- a: " + ",".join(f"x{number}" for number in range(12_000)),
        "## Lexicon\n" + "- :\n" * (KB64 // 8),
        "## Lexicon\n" + "- " * (KB64 // 2),
        "## Lexicon\n" + "|" * KB64,
        "## Lexicon\n" + "| |\n" * (KB64 // 4),
        "## Lexicon\n" + " " * KB64 + "x",
        "## Lexicon\n-" + " \t" * (KB64 // 2),
        "## Lexicon\n- a: " + "-" * KB64,
        "## Lexicon\n- a: " + '"(' * (KB64 // 2),
        "## Lexicon\n" * (KB64 // 11),
        "# " * (KB64 // 2),
        "#" * KB64,
        "<!--\n" * (KB64 // 5),
        "## Defaults\n- time_range_default: " + "P" + "9" * KB64,
        "## Defaults\n- role_default: " + "(" * KB64,
        "## Query Templates\n### profile\n- rewrite: " + "{" * KB64,
        "## Query Templates\n" + "### profile\n- first: x\n" * (KB64 // 23),
    ],
)
def test_hostile_body_is_parsed_in_bounded_time(body: str) -> None:
    """Most inputs take 0.1 seconds and 8,000 items one second; nonlinear parsing would take minutes."""
    began = time.process_time()
    steering = read_planner_configuration({"SKILL.md": body, "references/lexicon.md": body})
    steering.find_synonyms("a1 客户的 x5 " * 400)
    assert time.process_time() - began < 5
    assert len(steering.invalid_entries) <= 200
    assert len(steering.notes) <= 9
    assert sum(map(len, steering.notes)) < 2_000
