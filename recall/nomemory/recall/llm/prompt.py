"""Prompts for chat models. A prompt never contains a user id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from nomemory.recall.llm.fence import fence_items
from nomemory.recall.model.question import Question
from nomemory.recall.model.step import JsonValue


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and the JSON schema of the expected answer.

    Attributes:
        system: the system message, which does not depend on the question, so that endpoints can cache it.
        user: the first user message, with the question and the messages to read.
        follow_up_turns: pairs of an answer of the model and the user message that follows it.
    """

    system: str
    user: str
    answer_name: str
    answer_schema: Mapping[str, object]
    follow_up_turns: tuple[tuple[str, str], ...] = ()

    def iterate_turns(self) -> Iterator[tuple[str, str]]:
        """Return pairs of role and text, in order: `system`, `user`, `assistant`, `user`, …."""
        yield "system", self.system
        yield "user", self.user
        for answer, outcome in self.follow_up_turns:
            yield "assistant", answer
            yield "user", outcome


_TURNS_CHARS: Final = 4_000
"""Maximum number of characters in all turns of the current conversation. The last turns are kept."""


_NO_QUESTION = (
    "Question: none was asked. Say what of the person's history an assistant should think of before it answers the "
    "conversation in progress."
)


def format_question(question: Question) -> str:
    """Return the question, the current conversation and the initial search scope as text."""
    first = f"Question: {json.dumps(question.text, ensure_ascii=False)}" if question.text.strip() else _NO_QUESTION
    lines = [first]
    if question.role:
        lines.append(f"Whoever asks prefers messages of the role {question.role.value}.")
    if question.time_range:
        since, until = question.time_range.since, question.time_range.until
        lines += [f"Whoever asks prefers messages since {since.isoformat()}."] if since else []
        lines += [f"Whoever asks prefers messages until {until.isoformat()}."] if until else []
    if question.conversation_id:
        lines.append("The host looks at one conversation only; no argument is needed for that.")
    if question.turns:
        is_truncated = sum(len(turn.text) for turn in question.turns) > _TURNS_CHARS
        heading = "The end of the conversation in progress" if is_truncated else "The conversation in progress"
        lines += [f"{heading}, oldest turn first:", fence_items(_select_last_turns(question, _TURNS_CHARS))]
    return "\n".join(lines)


def _select_last_turns(question: Question, chars: int) -> Iterator[dict[str, JsonValue]]:
    """Yield the last turns of a conversation within a character limit.

    The first of these turns may be truncated at the beginning.
    """
    shown: list[dict[str, JsonValue]] = []
    for turn in reversed(question.turns):
        if chars > 0:
            shown.append({"role": turn.role.value, "text": turn.text[-chars:]})
        chars -= len(turn.text)
    yield from reversed(shown)
