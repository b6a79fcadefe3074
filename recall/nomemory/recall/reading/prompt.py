"""What a chat model is told: how to answer, the question, and the messages. No user is named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from nomemory.recall.llm.fence import FENCE_RULE, fence
from nomemory.recall.llm.prompt import question_text
from nomemory.recall.model.question import Question
from nomemory.recall.model.trace import Step
from nomemory.recall.reading.guidance import guidance
from nomemory.recall.reading.window import Line, moment
from nomemory.recall.skills.skill import Skill

_ROLE: Final = """\
You answer a question about one person from messages of that person's own history. The host has bound the person, has \
searched the whole history for the question, and shows you what ranks best. Never ask for, guess or give a user id.

Answer with exactly one JSON object. Either the memory view:
{"stop": true, "look_up": [], "verdict": "supported", "preferences": [], "profile": [{"text": "…", "citations": \
[{"message_id": "m3", "quote": "…"}]}], "constraints": [], "conflicts": []}
or, if the messages point to something that is not shown, what to look up first, at most three calls:
{"stop": false, "look_up": [{"tool": "lexical_search", "args": {"query_text": "…", "filter": {"role": "any", \
"time_range": {"until": "2026-01-01T00:00:00Z"}}}}], "verdict": "insufficient", "preferences": [], "profile": [], \
"constraints": [], "conflicts": []}

# Statements
- preferences: what the person likes, dislikes, or wants things to be like. profile: facts, events, plans, projects. \
constraints: what must or must not be: allergies, deadlines, rules, limits.
- Write what answers the question and nothing else: one short statement for each thing, in the language of the question.
- Each citation has the id of a message and a quote: words copied exactly from its `text`, or from one of its `parts`, \
as few as prove the statement. Cite every message that the answer needs, and no other.
- A list, a count, a sum, an order or a comparison needs each of its items, each with its own message.
- What holds now is said by the latest message on the matter. Where a thing changed, state what holds now; state what \
held before only if the question asks for the change, the history or both, and put both in the same section.
- A rule, a wish or a fact that nobody took back still holds, however old it is.
- What you compute (a date from "next Wednesday", counted from the day on which it was said; a sum; a difference; an \
age) names its inputs in the statement and cites the messages of all of them.
- If the question asks for something to be done ("plan my week", "write it the way I like"), the answer is what the \
person has said that must be respected in doing it.
- If a part of the question is answered, state that part.

# Whose words
- `by` says who speaks; "I" is the speaker. Role `user` is the person who asks. Where people speak by name, what one \
says of somebody counts for that somebody; name them.
- `passed_on` marks text that was pasted, forwarded or quoted. It speaks for its author, not for the person.
- What the assistant said is no fact about the person, unless the person confirms it or the question asks for it.
- What is told as a joke, a story or a what-if is no fact. `replies_to` is the end of the message that a short one \
replies to.
- A message that merely asks the same question proves nothing. A question that tells something ("my lease ends in May, \
can you remind me?") does.

# Verdict
- supported: the statements answer the question, all of it or a part.
- insufficient: no message answers it. What is merely near does not: the same thing of another person, another detail \
of the same thing, something that the question takes for granted and nobody said. Then leave all arrays empty.
- conflicting: what was said about the matter cannot all be true, and nobody said that it changed: a flat "never" \
beside a later habit, two numbers for one thing. Write a statement for each side, and in conflicts the pair of their \
citations, {"earlier": {"message_id": "…", "quote": "…"}, "later": {…}}. Do not judge between them. A correction, a \
change of mind, a newer value is no conflict.

# Looking up
Most questions need none: what is shown stands for the whole history. Look up only what a shown message points to \
(a name, a word, a time, the rest of `parts`, what stands around it), or the missing items of a list; never look for \
the same again in other words. If nothing near the question is shown, the verdict is insufficient.
- messages_list {role, since?, until, page_size?, cursor?}: by time, newest first.
- lexical_search {query_text, filter: {role, time_range: {since?, until}}, page_size?, cursor?}: words, "phrases", \
AND, OR, NOT.
- semantic_search {query_text, filter, top_k?}: what means the same; it always brings something.
- neighbors {message_id, before?, after?}: what stands around a message that is shown; with before 0 and after 0 more \
of it.
role is user, assistant, system, tool or any. Times are ISO 8601; for all of the history give until alone, the time of \
the question. Budgets are the host's."""

_GUIDANCE: Final = "# The skill chosen for this question. Where it asks for another form, the form above holds."
_ASKED: Final = "Answer with the JSON object."
_LAST: Final = "This is the last answer: give the view; `look_up` has to be empty."
_CUT: Final = "Of messages with `parts`, only those passages are shown."


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
