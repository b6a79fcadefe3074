"""What `nomemory skill eval` shows, and what it writes for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from nomemory.cli.figures import counted
from nomemory.cli.printable import one_line
from nomemory.evaluation.skill_comparison import Answers, Change, changes
from nomemory.evaluation.summary import summarise
from nomemory.evaluation.table import skill_table

_TEXT_MAX = 60  # columns of the terminal


def as_json(answers: Answers) -> dict[str, Any]:
    """Return the figures of each skill, and the changes of each against the first.

    `{"skills": {SKILL: {"all": figures, "categories": {CATEGORY: figures}}}, "changes": {SKILL: [{"question_id",
    "user_id", "category", "question", "gained", "lost"}]}}`.
    """
    return {
        "skills": {skill: summarise(found) for skill, found in answers.items()},
        "changes": {skill: [_record(one) for one in found] for skill, found in changed(answers).items()},
    }


def changed(answers: Answers) -> Mapping[str, Sequence[Change]]:
    """Return the changes of each skill against the first one."""
    first, *others = answers
    return {skill: list(changes(answers[first], answers[skill])) for skill in others}


def shown(answers: Answers) -> Iterator[Table | Text]:
    """Lay out the figures of each skill, and what changes from the first one to each other."""
    yield skill_table({skill: summarise(found) for skill, found in answers.items()})
    first = next(iter(answers))
    for skill, found in changed(answers).items():
        yield Text()
        yield from _lines(first, skill, found, len(answers[skill]))


def _lines(first: str, skill: str, found: Sequence[Change], asked: int) -> Iterator[Text]:
    """Say which questions a skill answers from other evidence than the first."""
    yield Text(f"{skill} against {first}: {len(found):,} of {counted(asked, 'question')} changed", style="bold")
    for one in found:
        asks = Text(one_line(one.question.text))
        asks.truncate(_TEXT_MAX, overflow="ellipsis")
        yield Text(f"  {one_line(one.question.question_id)}  {one_line(one.question.category)}  ").append_text(asks)
        for sign, ids, style in (("+", one.gained, "green"), ("−", one.lost, "red")):
            if ids:
                yield Text(f"    {sign} {one_line(' '.join(ids))}", style=style)


def _record(one: Change) -> dict[str, Any]:
    asked = one.question
    return {
        "question_id": asked.question_id,
        "user_id": asked.user_id,
        "category": asked.category,
        "question": asked.text,
        "gained": list(one.gained),
        "lost": list(one.lost),
    }
