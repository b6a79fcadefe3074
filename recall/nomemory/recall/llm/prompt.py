"""Prompts, and the parts that all of them share. None names a user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from nomemory.recall.llm.fence import fence
from nomemory.recall.model.question import Question
from nomemory.recall.model.step import JsonValue


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked, and the JSON Schema of the object that it is to answer with.

    Attributes:
        system: what is the same for all questions, so that an endpoint can keep what it has made of it.
        user: the question.
        answer_name: the schema's name.
        answer_schema: the schema.
        exchange: what was said since, in turn: the model's answers, and what came of them.
    """

    system: str
    user: str
    answer_name: str
    answer_schema: Mapping[str, object]
    exchange: tuple[tuple[str, str], ...] = ()

    def turns(self) -> Iterator[tuple[str, str]]:
        """Return who says what, in order: `system`, `user`, `assistant`, `user`, …."""
        yield "system", self.system
        yield "user", self.user
        for answer, outcome in self.exchange:
            yield "assistant", answer
            yield "user", outcome


_TURNS_CHARS: Final = 4_000
"""Characters of all turns of the conversation in progress together; the last ones are shown."""


_NO_QUESTION = (
    "Question: none was asked. Say what of the person's history an assistant should think of before it answers the "
    "conversation in progress."
)


def question_text(question: Question) -> str:
    """Write a question and the conversation in progress, and where the caller wants to begin."""
    asked = f"Question: {json.dumps(question.text, ensure_ascii=False)}" if question.text.strip() else _NO_QUESTION
    lines = [asked]
    if question.role:
        lines.append(f"Whoever asks prefers messages of the role {question.role.value}.")
    if question.time_range:
        since, until = question.time_range.since, question.time_range.until
        lines += [f"Whoever asks prefers messages since {since.isoformat()}."] if since else []
        lines += [f"Whoever asks prefers messages until {until.isoformat()}."] if until else []
    if question.conversation_id:
        lines.append("The host looks at one conversation only; no argument is needed for that.")
    if question.turns:
        cut = sum(len(turn.text) for turn in question.turns) > _TURNS_CHARS
        which = "The end of the conversation in progress" if cut else "The conversation in progress"
        lines += [f"{which}, oldest turn first:", fence(_turns(question, _TURNS_CHARS))]
    return "\n".join(lines)


def _turns(question: Question, chars: int) -> Iterator[dict[str, JsonValue]]:
    """Return the last turns, as many as may be shown; of the first of them, its end."""
    shown: list[dict[str, JsonValue]] = []
    for turn in reversed(question.turns):
        if chars > 0:
            shown.append({"role": turn.role.value, "text": turn.text[-chars:]})
        chars -= len(turn.text)
    yield from reversed(shown)
