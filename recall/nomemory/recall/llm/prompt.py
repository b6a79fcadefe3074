"""Prompts, and the parts that all of them share. None names a user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nomemory.recall.llm.fence import fence
from nomemory.recall.model.question import Question
from nomemory.recall.model.trace import JsonValue
from nomemory.recall.skills.loader import Skill


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
        turns: all turns of the conversation in progress together; the last ones are shown.
    """

    skill: int = 32_000
    references: int = 16_000
    message: int = 4_000
    observation: int = 4_000
    evidence: int = 4_000
    turns: int = 4_000


DEFAULT_BOUNDS = PromptBounds()


_NO_QUESTION = (
    "Question: none was asked. Find what of the person's history an assistant should think of before it answers the "
    "conversation in progress."
)


def question_text(question: Question, bounds: PromptBounds = DEFAULT_BOUNDS) -> str:
    """Write a question and when it is asked, where the search is to begin, and the conversation in progress."""
    asked = f"Question: {json.dumps(question.text, ensure_ascii=False)}" if question.text.strip() else _NO_QUESTION
    lines = [f"It is {question.now.isoformat()}.", asked]
    if question.role:
        lines.append(f"Begin with messages of the role {question.role.value}.")
    if question.time_range:
        since, until = question.time_range.since, question.time_range.until
        lines += [f"Begin with messages since {since.isoformat()}."] if since else []
        lines += [f"Begin with messages until {until.isoformat()}."] if until else []
    if question.conversation_id:
        lines.append("The host looks at one conversation only; no argument is needed for that.")
    if question.turns:
        cut = sum(len(turn.text) for turn in question.turns) > bounds.turns
        which = "The end of the conversation in progress" if cut else "The conversation in progress"
        lines += [f"{which}, oldest turn first:", fence(_turns(question, bounds.turns))]
    return "\n".join(lines)


def _turns(question: Question, chars: int) -> Iterator[dict[str, JsonValue]]:
    """Return the last turns, as many as may be shown; of the first of them, its end."""
    shown: list[dict[str, JsonValue]] = []
    for turn in reversed(question.turns):
        if chars > 0:
            shown.append({"role": turn.role.value, "text": turn.text[-chars:]})
        chars -= len(turn.text)
    yield from reversed(shown)


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
