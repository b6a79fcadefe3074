"""`nomemory skill eval`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource
from rich.progress import track

from nomemory.cli.connection import connect
from nomemory.cli.importing.progress import catching_up
from nomemory.cli.skill.eval_skills import Skills, skills_of
from nomemory.cli.target import Target, target_option
from nomemory.cli.terminal import stderr_console, stdout_console
from nomemory.client.sync import Client
from nomemory.evaluation.json_file import json_file_option, write_json
from nomemory.evaluation.labelled_file import LabelledDataError, read_questions
from nomemory.evaluation.labelled_set import LabelledSet, read_set
from nomemory.evaluation.loading import IndexesBehindError, load, wait_for_indexes
from nomemory.evaluation.question import Question
from nomemory.evaluation.skill_comparison import Answers, ask_each
from nomemory.evaluation.temporary_server import ServerStartError, temporary_server

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_FAILURES: Final = (LabelledDataError, IndexesBehindError, ServerStartError)


@click.command("eval")
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
def eval_(
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
    from nomemory.cli.skill import eval_output  # noqa: PLC0415 - numpy loads only for this command

    for part in eval_output.shown(answers):
        stdout_console().print(part)
    write_json(out, eval_output.as_json(answers))


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
    own = [*map(str, skills.folders), os.environ.get("NOMEMORY_RECALL_SKILLS", "")]
    settings = {"NOMEMORY_RECALL_SKILLS": os.pathsep.join(filter(None, own))}
    with temporary_server(settings) as server, connect(Target(server.target)) as client:
        load(client, labelled.path, labelled.messages)
        with catching_up(stderr_console()) as tell:
            wait_for_indexes(client, tell)
        yield client


def _ask(client: Client, skills: Sequence[str], questions: Sequence[Question]) -> Answers:
    console = stderr_console()
    tracked = track(questions, "Asking", console=console, transient=True, disable=not console.is_terminal)
    return ask_each(client, skills, tracked, lambda: None)
