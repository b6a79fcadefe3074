"""What a model is asked, and the parts that all prompts share. Nothing in here names a user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from nomemory.recall.model.question import Question
from nomemory.recall.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked, and the JSON Schema of the object that it is to answer with."""

    system: str
    user: str
    answer_name: str
    answer_schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PromptBounds:
    """The most characters that parts of a prompt may have; what is longer is cut or left out, and the prompt says so.

    Attributes:
        skill: the skill's own text.
        references: all its references together.
        message: one message as the planner sees it; how many it sees, the budget says.
        observation: what came of one step; a cursor stands in it, and a cut one is none.
        evidence: one message as the synthesiser sees it.
    """

    skill: int = 32_000
    references: int = 16_000
    message: int = 4_000
    observation: int = 4_000
    evidence: int = 4_000


DEFAULT_BOUNDS = PromptBounds()


def question_text(question: Question) -> str:
    """Write a question, the time at which it is asked, and where the caller wants the search to begin."""
    lines = [f"It is {question.now.isoformat()}.", f"Question: {json.dumps(question.text, ensure_ascii=False)}"]
    if question.role:
        lines.append(f"Begin with messages of the role {question.role.value}.")
    if question.time_range:
        since, until = question.time_range.since, question.time_range.until
        lines += [f"Begin with messages since {since.isoformat()}."] if since else []
        lines += [f"Begin with messages until {until.isoformat()}."] if until else []
    return "\n".join(lines)


def skill_text(skill: Skill, bounds: PromptBounds) -> str:
    """Write a skill with its references, as much of them as may be shown."""
    parts = [f"# Skill {skill.name}\n{skill.body[: bounds.skill]}"]
    if len(skill.body) > bounds.skill:
        parts.append("(The skill's text goes on; it was cut here.)")
    left = bounds.references
    for path, text in skill.references.items():
        left -= len(text)
        parts.append(f"## {path}\n{text}" if left >= 0 else f"## {path}\n(Left out: too long.)")
    return "\n\n".join(parts)


def strict_object(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON schema of an object that has all of its properties and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
