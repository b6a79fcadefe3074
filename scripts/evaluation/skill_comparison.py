"""`scripts/compare_skills`: the same questions with several recall skills, and what one finds that another does not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.progress import track
from rich.table import Table
from rich.text import Text

from evaluation.asking import Answer, Cost, Recall, ask
from evaluation.labelled_file import LabelledDataError, Question, read_questions
from evaluation.labelled_set import IndexesBehindError, LabelledSet, load, read_set, wait_for_indexes
from evaluation.options import json_file_option, write_json
from evaluation.summary import summarise
from evaluation.table import skill_table
from evaluation.temporary_server import ServerStartError, temporary_server
from nomemory.cli.connection import Target, connect, target_option
from nomemory.cli.console import stderr_console, stdout_console
from nomemory.cli.terminal import one_line, pluralize
from nomemory.client.sync import Client
from nomemory.importing.progress import indexing_progress
from nomemory.recall.skills.folder import SKILL_FILE

_TEXT_MAX: Final = 60  # columns of the terminal
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_FAILURES: Final = (LabelledDataError, IndexesBehindError, ServerStartError)

Answers = Mapping[str, Sequence[Answer]]
"""The answers of each skill, in the order of the questions."""


@click.command("compare_skills", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--skill",
    "named",
    multiple=True,
    required=True,
    metavar="SKILL",
    help="A skill's name, or its folder, with a slash in the path. The others are compared with the first.",
)
@click.option(
    "--questions", type=_FILE, required=True, help="Labelled questions, in the form of sample/questions.jsonl."
)
@click.option("--messages", type=_FILE, help="What was said: asks a server of its own that holds these messages.")
@click.option(
    "--skills-dir",
    "folders",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="With --messages: a folder of skills to look in. May be given several times.",
)
@json_file_option
@target_option
@click.pass_context
def compare_skills(
    context: click.Context,
    *,
    named: Sequence[str],
    questions: Path,
    messages: Path | None,
    folders: Sequence[Path],
    out: Path | None,
    target: Target,
) -> None:
    """Compare recall skills on labelled questions: how much of the evidence each finds, and how fast.

    With --messages a temporary server is started for it; else the server at --target is asked, which has to hold the
    users' messages and the skills. Unanswerable questions count for the verdicts alone. Every category has a line for
    each skill; then follow the questions for which a skill finds other evidence than the first.
    """
    skills = skills_of(named, folders)
    if messages is None and skills.folders:
        raise click.UsageError("A running server has its own skills: name them, or give --messages.")
    if messages and context.get_parameter_source("target") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--messages starts a server of its own: leave --target out.")
    try:
        answers = _answers(skills, questions, messages, target)
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
    for part in shown(answers):
        stdout_console().print(part)
    write_json(out, as_json(answers))


def _answers(skills: Skills, questions: Path, messages: Path | None, target: Target) -> Answers:
    if messages is None:
        asked = read_questions(questions)
        with connect(target) as client:
            return _ask(client, skills.names, asked)
    labelled = read_set(messages.stem, messages, questions)
    with _holding(labelled, skills) as client:
        return _ask(client, skills.names, labelled.questions)


@contextmanager
def _holding(labelled: LabelledSet, skills: Skills) -> Iterator[Client]:
    """Run a server that has the messages and the skills; returns a client of it."""
    own = [*map(str, skills.folders), os.environ.get("NOMEMORY_RECALL_SKILL_DIRS", "")]
    settings = {"NOMEMORY_RECALL_SKILL_DIRS": os.pathsep.join(filter(None, own))}
    with temporary_server(settings) as server, connect(Target(server.target)) as client:
        load(client, labelled.path, labelled.messages)
        with indexing_progress(stderr_console()) as tell:
            wait_for_indexes(client, tell)
        yield client


def _ask(client: Client, skills: Sequence[str], questions: Sequence[Question]) -> Answers:
    console = stderr_console()
    tracked = track(questions, "Asking", console=console, transient=True, disable=not console.is_terminal)
    return ask_each(client, skills, tracked, lambda: None)


@dataclass(frozen=True, slots=True)
class Skills:
    """Names of skills, each once, and the folders to look for them in, first ones first."""

    names: tuple[str, ...]
    folders: tuple[Path, ...]


def skills_of(given: Sequence[str], folders: Sequence[Path]) -> Skills:
    """Read what stands for a skill: a name, or the path of its folder, which has a slash in it.

    Raises:
        click.UsageError: there is no skill at a path, or two have the same name.
    """
    paths = [Path(text).resolve() if _is_path(text) else None for text in given]
    names = [path.name if path else text for path, text in zip(paths, given, strict=True)]
    for path, text in zip(paths, given, strict=True):
        if path and not (path / SKILL_FILE).is_file():
            raise click.UsageError(f"There is no {SKILL_FILE} in {text}.")
    if len(set(names)) < len(names):
        raise click.UsageError("Two of the skills have the same name: a skill is known by the name of its folder.")
    libraries = [path.parent for path in paths if path]
    return Skills(tuple(names), tuple(dict.fromkeys([*libraries, *(folder.resolve() for folder in folders)])))


def _is_path(text: str) -> bool:
    return os.sep in text or text in (os.curdir, os.pardir)


@dataclass(frozen=True, slots=True)
class Change:
    """A question to which a skill finds other evidence than the first one: ids of labelled messages, sorted."""

    question: Question
    gained: tuple[str, ...]
    lost: tuple[str, ...]


def ask_each(
    client: Client, skills: Sequence[str], questions: Iterable[Question], cost: Cost
) -> dict[str, list[Answer]]:
    """Ask every question with every skill.

    Each skill is asked first in its turn, because who comes first waits for the embedding of the question.

    Raises:
        NoMemoryError: a question was not answered, or there is no such skill.
    """
    answers: dict[str, list[Answer]] = {skill: [] for skill in skills}
    for number, question in enumerate(questions):
        if not number:
            for skill in skills:
                ask(client, Recall(skill), question, cost)
        first = number % len(skills)
        for skill in (*skills[first:], *skills[:first]):
            answers[skill].append(ask(client, Recall(skill), question, cost))
    return answers


def changes(before: Sequence[Answer], after: Sequence[Answer]) -> Iterator[Change]:
    """Return the questions whose evidence changed, in their order. Both answer the same questions."""
    for old, new in zip(before, after, strict=True):
        had, has = _evidence(old), _evidence(new)
        if had != has:
            yield Change(old.question, tuple(sorted(has - had)), tuple(sorted(had - has)))


def _evidence(answer: Answer) -> frozenset[str]:
    return answer.question.evidence.intersection(answer.found.message_ids)


def as_json(answers: Answers) -> dict[str, Any]:
    """Return the figures of each skill, and the changes of each against the first.

    `{"skills": {SKILL: {"all": figures, "categories": {CATEGORY: figures}}}, "changes": {SKILL: [{"question_id",
    "user_id", "category", "question", "gained", "lost"}]}}`.
    """
    return {
        "skills": {skill: summarise(found) for skill, found in answers.items()},
        "changes": {skill: [_record(item) for item in found] for skill, found in changed(answers).items()},
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
    yield Text(f"{skill} against {first}: {len(found):,} of {pluralize(asked, 'question')} changed", style="bold")
    for item in found:
        asks = Text(one_line(item.question.text))
        asks.truncate(_TEXT_MAX, overflow="ellipsis")
        yield Text(f"  {one_line(item.question.question_id)}  {one_line(item.question.category)}  ").append_text(asks)
        for sign, ids, style in (("+", item.gained, "green"), ("−", item.lost, "red")):
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


def main() -> None:
    """Run. Exit codes: 0 done, 1 failed, 2 wrong usage."""
    sys.exit(compare_skills.main(prog_name="scripts/compare_skills"))


if __name__ == "__main__":
    main()
