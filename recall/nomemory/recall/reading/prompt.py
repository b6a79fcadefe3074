"""Prompts for a chat model that reads messages. A prompt never contains a user id."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nomemory.client.prompt_lines import format_time
from nomemory.recall.llm.fence import FENCE_RULE, fence_items
from nomemory.recall.llm.prompt import format_question
from nomemory.recall.model.question import Question
from nomemory.recall.model.step import JsonValue, RecallStep
from nomemory.recall.model.sufficiency import Sufficiency
from nomemory.recall.reading.prompt_context import Line
from nomemory.recall.reading.skill_text import extract_guidance
from nomemory.recall.skills.loader import Skill

_INSTRUCTIONS: Final = """\
You answer a question about one person from messages of that person's own history. The host has searched the whole \
history and shows what ranks best. The person is bound: never ask for, guess or give a user id.

Answer with exactly one JSON object. Either the memory view:
{"stop": true, "look_up": [], "verdict": "supported", "preferences": [], "profile": [{"text": "…", "citations": \
[{"message_id": "m3", "quote": "…"}]}], "constraints": [], "conflicts": []}
or what to look up first, at most three calls (verdict "insufficient" and the arrays empty):
{"stop": false, "look_up": [{"tool": "lexical_search", "args": {"query_text": "…", "filter": {"role": "any", \
"time_range": {"until": "2026-01-01T00:00:00Z"}}}}], "verdict": …}
`thought` may give your reason in one short sentence.

# Statements
- constraints: what must or must not be: allergies, deadlines, rules, limits, budgets. preferences: what the person \
likes, dislikes, how things should be for them. profile: everything else: facts, events, plans, projects, and what \
others like. If two fit, take the first of these.
- State what answers the question and nothing else, one short statement for each thing, in the question's language. \
Where only a part of the question can be answered, state that part. What plainly follows from several messages \
("the same dentist as my sister") answers, too: cite each. Where several occasions fit, state each with its day.
- A quote is copied exactly from the `text` or one of the `parts` of the message it names, as short as proves the \
statement. Where further shown messages prove the same thing on their own (told again, to somebody else, in a note, \
as a result), cite up to three, the clearest first. Of a list, count, sum, order or comparison cite each item. If the \
question names an event that fixes what is asked ("the first swim after the fall", "the trip that came of the prize"), \
cite the message that proves this event, too; of a change or course of events, every step; of a reason, also where \
the reason itself is told. A reply such as "yes, two" proves nothing alone: cite the question that it answers, too.
- Every number, date, amount and proper name of a statement is checked: it has to stand in the statement's quotes, \
in any notation (三千八 = 3,800, half past ten = 10:30); names of the question may be used, too. Code knows the day \
on which a message was sent: it may stand in the statement, and "yesterday", "last night" and "next Wednesday" are \
counted from it (weeks begin on Monday): write the resolved date, no more. What you calculate goes into `computed` of \
the statement, as equations whose operands stand in the quotes: {"text": "Paid 1,550 in all", "citations": […], \
"computed": ["1200 + 350 = 1550"]}; also "2025-06-12 - 2025-06-01 = 11 days", "17:30 - 09:00 = 8:30", "1 + 1 + 1 = 3" \
for counted things. 凡是算出来的数字，把算式写进 `computed`，例如 \
["3800 * 12 = 45600"]。A statement that fails is \
replaced by its quotes.
- What holds now is what the latest message on the matter says. A planned change holds from its day on: if that day \
has come by now, it is in force unless something says otherwise. What nobody took back still holds, however old. \
State what held before only if the question asks for it, for the change or for the history, and then in the same \
section.
- If something is to be done ("plan my week", "write it my way"), state what the person has said that must be \
respected in doing it.

# Whose words
- `by` says who speaks, and "I" is the speaker. The person who asks writes as user or under a name (their own, a \
nickname, 我): all of these are one person, and the question may call them by name or "she". Name others by their \
names.
- `passed_on` marks spans that the speaker only passes on (pasted, forwarded, quoted): the words they stand `after`, \
and how a span `begins` and `ends` (without `ends`: up to the end). It speaks for whoever those words name. The host \
finds them by form alone: where the mark is missing, the text may still be somebody else's.
- What an assistant said is no fact about the person unless the person confirms it or the question asks for it. Nor \
is a joke, a story or a what-if.
- A message that only asks proves nothing; one that tells something in asking does. `replies_to` is the message, or \
the end of its text, that was said just before a short one.

# Verdict
- supported: the statements answer the question or a part of it.
- insufficient: no message answers it. What is only near does not: the same of another person or thing, another \
detail, something that the question takes for granted and nobody said. A side detail of the question that no message \
mentions does no harm. Leave the arrays empty.
- conflicting: what was said on what is asked cannot all be true, and nobody said that it changed: a flat "never" or \
"always" beside its opposite, two numbers for one thing. State each side, and in conflicts the pair of their \
citations, {"earlier": {"message_id": "…", "quote": "…"}, "later": {…}}; do not judge. A correction, a change of \
mind, a new taste, a newer value or a later summary with other figures is none; contradictions on other matters are \
not reported.

# Looking up
Most questions need none. Look up what a shown message points to (a name, a time, what stands around it, the rest of \
its `parts`, missing items of a list), or a thing, a name or a day that the question names and no shown message \
speaks of. A missing detail of what is shown is rarely found: answer with what is known, or "insufficient". Never \
the same in other words.
- messages_list {role, since?, until, page_size?}: by time, newest first
- lexical_search {query_text, filter: {role, time_range: {since?, until}}, page_size?}: words, "phrases", \
AND, OR, NOT
- semantic_search {query_text, filter, top_k?}: by meaning; it always brings something
- neighbors {message_id, before?, after?}: around a shown message; with before 0 and after 0 more of its `parts`
role: user, assistant, system, tool, any. Times: ISO 8601; until alone for the whole history."""

_GUIDANCE_HEADING: Final = "# The skill chosen for this question. Where it asks for another form, the form above holds."
_ANSWER_REQUEST: Final = "Answer with the JSON object."
_LAST_ANSWER_NOTE: Final = "This is the last answer: give the view; `look_up` has to be empty."
_ROUNDS_LEFT_NOTE: Final = "You may look up {rounds}."
_PARTS_NOTE: Final = "Of messages with `parts`, only those sentences are shown."
_RETRACTED_NOTE: Final = "What has `taken_back_by` was taken back by that message: it holds no more."
_RANKING_INTRODUCTION: Final = (
    "The {count} messages that rank best, in the order of time, under their days. The labels give the rough order of "
    "the ranking, m1 first. It is often wrong near the top; the last ones only stand beside others:"
)
_POOR_MATCH_NOTE: Final = "Nothing matches the question well: it may be that no message answers it."
_POOR_MATCH_PROBABILITY: Final = 0.2
"""Estimated probability of an answer below which the prompt states that no message matches well."""


def build_system_prompt(skill: Skill) -> str:
    """Return the system prompt, which depends only on the skill, so that endpoints can cache it."""
    guidance_text = extract_guidance(skill)
    return "\n\n".join((_INSTRUCTIONS, FENCE_RULE, *((_GUIDANCE_HEADING, guidance_text) if guidance_text else ())))


def build_first_prompt(
    question: Question, lines: Sequence[Line], lookups: int, sufficiency: Sufficiency | None = None
) -> str:
    """Return the first user message: the question and the best messages, oldest first.

    Args:
        question: supplies the question text, the current conversation, the current time and the time zone.
        lines: the messages as JSON objects, oldest first.
        lookups: number of rounds of follow-up searches that are left.
        sufficiency: estimate of whether the message log contains the answer; None if no search made an estimate.
    """
    zone = f"{question.now:%Z}" or "the asker's zone"
    now = format_time(question.now, question.now.tzinfo)
    is_poor = sufficiency is not None and sufficiency.probability < _POOR_MATCH_PROBABILITY
    return "\n\n".join(
        (
            f"It is {now}. All times are in {zone}.\n{format_question(question)}",
            f"{_RANKING_INTRODUCTION.format(count=len(lines))}\n{fence_items(group_messages_by_day(lines))}"
            if lines
            else "No message was found.",
            *([_POOR_MATCH_NOTE] if is_poor and lines else []),
            *_explain_line_fields(lines),
            _build_closing_instruction(lookups),
        )
    )


def build_results_prompt(
    steps: Sequence[RecallStep], labels_by_id: Mapping[str, str], lines: Sequence[Line], left_out: int, lookups: int
) -> str:
    """Return a user message with the results of follow-up searches: a line per call, then the new messages by time.

    Args:
        steps: the calls.
        labels_by_id: the labels of the messages that the chat model has seen, including the new ones, by message id.
        lines: the new messages as JSON objects, oldest first. Messages that were shown before are not repeated.
        left_out: number of new messages that did not fit into the prompt.
        lookups: number of rounds of follow-up searches that are left.
    """
    call_results = fence_items(_describe_call(step, labels_by_id) for step in steps)
    omission = f" ({left_out} more did not fit)" if left_out else ""
    new_messages = (
        f"New messages, oldest first{omission}:\n{fence_items(group_messages_by_day(lines))}"
        if lines or left_out
        else "They brought nothing that was not shown."
    )
    return "\n\n".join(
        (
            f"What you looked up:\n{call_results}",
            new_messages,
            *_explain_line_fields(lines),
            _build_closing_instruction(lookups),
        )
    )


def _describe_call(step: RecallStep, labels_by_id: Mapping[str, str]) -> Line:
    """Describe a call by its result and the labels of the best messages that it found."""
    labels: list[JsonValue] = [
        labels_by_id[message_id] for message_id in step.message_ids if message_id in labels_by_id
    ]
    return {"tool": step.tool, "result": step.observation, **({"best": labels} if labels else {})}


def build_rejection_prompt(reason: str, lookups: int) -> str:
    """Return a user message that states why an answer was rejected."""
    return f"That answer could not be used: {reason} {_build_closing_instruction(lookups)}"


def group_messages_by_day(lines: Sequence[Line]) -> Iterator[Line]:
    """Put a heading with the date before the messages of each day.

    If several messages of a day belong to one conversation, they are grouped under a heading that also names the
    conversation. The lines of the messages contain the time without the date.
    """
    dated_lines = [(str(line["said"]).rpartition(" "), line) for line in lines]
    conversation_sizes = Counter((day, line.get("talk")) for (day, _, _), line in dated_lines)
    first_index = {
        (day, line.get("talk")): index for index, ((day, _, _), line) in reversed(list(enumerate(dated_lines)))
    }
    first_index_of_day = {day: index for index, ((day, _, _), _) in reversed(list(enumerate(dated_lines)))}
    heading: Line | None = None
    for (day, _, time), line in sorted(
        dated_lines, key=lambda item: (first_index_of_day[item[0][0]], first_index[item[0][0], item[1].get("talk")])
    ):
        conversation = line.get("talk")
        line_heading = {
            "day": day,
            **({"conversation": conversation} if conversation and conversation_sizes[day, conversation] > 1 else {}),
        }
        if line_heading != heading:
            heading = line_heading
            yield heading
        yield {"id": line["id"], "at": time, **{name: line[name] for name in line if name not in _IN_HEADING}}


_IN_HEADING: Final = frozenset({"id", "said", "talk"})


def truncate_answer(text: str) -> str:
    """Return a model's answer for the next prompt, or a short placeholder if the answer is too long."""
    return text if len(text) <= _MAX_ANSWER_CHARS else json.dumps({"stop": False})


_MAX_ANSWER_CHARS: Final = 8_000


def _build_closing_instruction(lookups: int) -> str:
    if not lookups:
        return _LAST_ANSWER_NOTE
    rounds = "once more; after that you have to answer" if lookups == 1 else f"in {lookups} more rounds"
    return f"{_ROUNDS_LEFT_NOTE.format(rounds=rounds)} {_ANSWER_REQUEST}"


def _explain_line_fields(lines: Sequence[Line]) -> Iterator[str]:
    if any("parts" in line for line in lines):
        yield _PARTS_NOTE
    if any("taken_back_by" in line for line in lines):
        yield _RETRACTED_NOTE
