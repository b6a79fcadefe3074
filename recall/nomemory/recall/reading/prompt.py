"""What a chat model is told: how to answer, the question, and the messages. No user is named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from nomemory.recall.llm.fence import FENCE_RULE, fence
from nomemory.recall.llm.prompt import question_text
from nomemory.recall.model.question import Question
from nomemory.recall.model.step import Step
from nomemory.recall.reading.guidance import guidance
from nomemory.recall.reading.window import Line, moment
from nomemory.recall.skills.loader import Skill

_ROLE: Final = """\
You answer a question about one person from messages of that person's own history. The host has searched the whole \
history for the question and shows what ranks best. The person is bound: never ask for, guess or give a user id.

Answer with exactly one JSON object. Either the memory view:
{"stop": true, "look_up": [], "verdict": "supported", "preferences": [], "profile": [{"text": "…", "citations": \
[{"message_id": "m3", "quote": "…"}]}], "constraints": [], "conflicts": []}
or what to look up first, at most three calls (verdict "insufficient" and the arrays empty):
{"stop": false, "look_up": [{"tool": "lexical_search", "args": {"query_text": "…", "filter": {"role": "any", \
"time_range": {"until": "2026-01-01T00:00:00Z"}}}}], "verdict": …}

# Statements
- preferences: likes, dislikes, how things should be. profile: facts, events, plans, projects. constraints: what must \
or must not be: allergies, deadlines, rules, limits.
- State what answers the question and nothing else, one short statement for each thing, in the question's language.
- A quote is copied exactly from the `text` or one of the `parts` of the message it names, as short as proves the \
statement. Cite every message that the answer needs and no other; of a list, count, sum, order or comparison each \
item. What only tells what "she" or "it" means need not be cited.
- What holds now is what the latest message on the matter says. State what held before only if the question asks for \
the change or the history, and then in the same section. What nobody took back still holds, however old.
- What you compute (a date from "next Wednesday", counted from the day it was said, in weeks that begin on Monday; a \
sum; a difference) names its inputs and cites all of them.
- If something is to be done ("plan my week", "write it my way"), state what the person has said that must be \
respected in doing it.

# Whose words
- `by` says who speaks, and "I" is the speaker; user is the person who asks. Name others by their names.
- `passed_on` marks pasted, forwarded or quoted text: it speaks for its author, not for the person.
- What an assistant said is no fact about the person unless the person confirms it or the question asks for it. Nor is \
a joke, a story or a what-if.
- A message that only asks proves nothing; one that tells something in asking does. `replies_to` is the end of what a \
short message replies to.

# Verdict
- supported: the statements answer the question or a part of it.
- insufficient: no message answers it. What is only near does not: the same of another person or thing, another \
detail, something that the question takes for granted and nobody said. Leave the arrays empty.
- conflicting: what was said cannot all be true, and nobody said that it changed: a flat "never" or "always" beside \
its opposite, two numbers for one thing. State each side, and in conflicts the pair of their citations, {"earlier": \
{"message_id": "…", "quote": "…"}, "later": {…}}; do not judge. A correction, a change of mind or a newer value is none.

# Looking up
Most questions need none. Look up only what a shown message points to: a name, a time, what stands around it, the rest \
of its `parts`, missing items of a list; never the same in other words.
- messages_list {role, since?, until, page_size?, cursor?}: by time, newest first
- lexical_search {query_text, filter: {role, time_range: {since?, until}}, page_size?, cursor?}: words, "phrases", \
AND, OR, NOT
- semantic_search {query_text, filter, top_k?}: by meaning; it always brings something
- neighbors {message_id, before?, after?}: around a shown message; with before 0 and after 0 more of its `parts`
role: user, assistant, system, tool, any. Times: ISO 8601; until alone for the whole history. Budgets are the host's."""

_GUIDANCE: Final = "# The skill chosen for this question. Where it asks for another form, the form above holds."
_ASKED: Final = "Answer with the JSON object."
_LAST: Final = "This is the last answer: give the view; `look_up` has to be empty."
_CUT: Final = "Of messages with `parts`, only those passages are shown."
_RETRACTED: Final = "What has `taken_back_by` was taken back by that message: it holds no more."


def system_text(skill: Skill) -> str:
    """Write what is the same for every question that a skill is chosen for."""
    guided = guidance(skill)
    return "\n\n".join((_ROLE, FENCE_RULE, *((_GUIDANCE, guided) if guided else ())))


def first_text(question: Question, lines: Sequence[Line], *, is_last: bool) -> str:
    """Write the question and the best messages of the ranking, oldest first."""
    zone = f"{question.now:%Z}" or "the asker's zone"
    ranked = f"The best {len(lines)} messages, oldest first; m1 is the likeliest to answer, then m2, and so on:"
    return "\n\n".join(
        (
            f"It is {moment(question.now, question.now.tzinfo)}. All times are in {zone}.\n{question_text(question)}",
            f"{ranked}\n{fence(lines)}" if lines else "No message was found.",
            *_remarks(lines),
            _LAST if is_last else _ASKED,
        )
    )


def outcome_text(steps: Sequence[Step], lines: Sequence[Line], *, is_last: bool) -> str:
    """Write what look-ups brought: a line each, and the messages that were not shown before, oldest first."""
    done = fence({"tool": step.tool, "found": step.hits, "observation": step.observation} for step in steps)
    new = f"New messages, oldest first:\n{fence(lines)}" if lines else "They brought nothing that was not shown."
    return "\n\n".join((f"What you looked up:\n{done}", new, *_remarks(lines), _LAST if is_last else _ASKED))


def refusal_text(why: str, *, is_last: bool) -> str:
    """Write why an answer could not be used."""
    return f"That answer could not be used: {why} {_LAST if is_last else _ASKED}"


def as_answered(text: str) -> str:
    """Return what a model said, short enough to be shown to it again."""
    return text if len(text) <= _SHOWN_AGAIN else json.dumps({"stop": False})


_SHOWN_AGAIN: Final = 8_000


def _remarks(lines: Sequence[Line]) -> Iterator[str]:
    if any("parts" in line for line in lines):
        yield _CUT
    if any("taken_back_by" in line for line in lines):
        yield _RETRACTED
