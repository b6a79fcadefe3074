"""Tests for the skill text in prompts, without sections about searches or answer formats."""

from __future__ import annotations

from pathlib import Path

from nomemory.recall.reading.prompt import build_system_prompt
from nomemory.recall.reading.skill_text import MAX_GUIDANCE_CHARS, extract_guidance
from nomemory.recall.skills.loader import Skill, SkillLibrary

ROOT = Path(__file__).parents[3]
BODY = """# Sailing

## Scenario
A club's members talk about boats.

## Defaults
- time_range_default: P30D

## Lexicon
- dinghy: skiff, optimist

## Tools
Begin with `lexical_search`.

## When
Set `since` to the start of the season.

## Filters
Use time_range always.

## Answers
Each has citations.
"""


def test_guidance_keeps_scenario_and_lexicon_and_omits_planner_sections() -> None:
    shown = extract_guidance(
        Skill("sailing", "d", BODY, {"references/boats.md": "A *dinghy* is small.\nA yacht is not."})
    )
    assert "members talk about boats" in shown
    assert "dinghy: skiff" in shown
    assert "A yacht is not." in shown
    for gone in ("P30D", "lexical_search", "since", "time_range", "citations", "# Sailing"):
        assert gone not in shown


def test_default_skill_adds_no_guidance() -> None:
    skill = SkillLibrary([ROOT / "skills"], "nomemory-recall-default").load()
    assert extract_guidance(skill) == ""
    assert skill.name not in build_system_prompt(skill)


def test_long_skill_is_truncated_with_a_mark() -> None:
    shown = extract_guidance(Skill("long", "d", "## Scenario\nwords\n" + "more words\n" * 1_000))
    assert len(shown) < MAX_GUIDANCE_CHARS + 100
    assert shown.endswith("it was cut here.)")


def test_scripts_are_not_part_of_the_guidance() -> None:
    skill = Skill("s", "d", "## Scenario\nBoats\n", {"scripts/calls.md": "Boats\nand harbours"})
    assert "harbours" not in extract_guidance(skill)
