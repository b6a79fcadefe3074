"""`scripts/compare_skills`: comparison of recall skills on the same labeled questions."""

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

from evaluation.asking import Answer, Cost, RecallMethod, ask_question
from evaluation.labeled_file import LabeledDataError, Question, read_questions
from evaluation.labeled_set import IndexingTimeoutError, LabeledSet, import_messages, read_set, wait_for_indexes
from evaluation.options import json_file_option, write_json
from evaluation.summary import summarize_answers
from evaluation.table import build_skill_table
from evaluation.temporary_server import ServerStartError, temporary_server
from nomemory.cli.connection import Target, open_client, target_option
from nomemory.cli.console import create_stderr_console, create_stdout_console
from nomemory.cli.terminal import pluralize, to_single_line
from nomemory.client.sync import Client
from nomemory.importing.progress import show_indexing_progress
from nomemory.recall.skills.folder import SKILL_FILE

_TEXT_MAX: Final = 60  # columns of the terminal
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_FAILURES: Final = (LabeledDataError, IndexingTimeoutError, ServerStartError)

Answers = Mapping[str, Sequence[Answer]]
"""The answers of each skill, in the order of the questions."""


@click.command("compare_skills", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--skill",
    "named",
    multiple=True,
    required=True,
    metavar="SKILL",
    help="Name of a skill, or path of its folder (with a slash). The first skill is the baseline.",
)
@click.option(
    "--questions", type=_FILE, required=True, help="Labeled questions, in the format of sample/questions.jsonl."
)
@click.option("--messages", type=_FILE, help="Start a temporary server with these messages.")
@click.option(
    "--skills-dir",
    "folders",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="With --messages: folder of skills. May be repeated.",
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
    """Compare the evidence recall and latency of recall skills on labeled questions.

    With --messages, starts a temporary server; otherwise uses the server at --target, which must have the messages and
    the skills. Unanswerable questions count only for the verdict metrics. The output has one line per category and
    skill, then the questions for which a skill returns different evidence than the first skill.
    """
    skills = parse_skills(named, folders)
    if messages is None and skills.folders:
        raise click.UsageError(
            "Folders of skills require --messages. For a running server, pass the names of its skills."
        )
    if messages and context.get_parameter_source("target") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--messages starts a temporary server and cannot be combined with --target.")
    try:
        answers = _collect_answers(skills, questions, messages, target)
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
    for item in render_report(answers):
        create_stdout_console().print(item)
    write_json(out, to_json(answers))


def _collect_answers(skills: SkillSelection, questions: Path, messages: Path | None, target: Target) -> Answers:
    if messages is None:
        question_list = read_questions(questions)
        with open_client(target) as client:
            return _ask_with_progress(client, skills.names, question_list)
    labeled = read_set(messages.stem, messages, questions)
    with _running_client(labeled, skills) as client:
        return _ask_with_progress(client, skills.names, labeled.questions)


@contextmanager
def _running_client(labeled: LabeledSet, skills: SkillSelection) -> Iterator[Client]:
    """Run a server that has the messages and the skills; yield a client."""
    skill_dirs = [*map(str, skills.folders), os.environ.get("NOMEMORY_RECALL_SKILL_DIRS", "")]
    settings = {"NOMEMORY_RECALL_SKILL_DIRS": os.pathsep.join(filter(None, skill_dirs))}
    with temporary_server(settings) as server, open_client(Target(server.target)) as client:
        import_messages(client, labeled.path, labeled.messages)
        with show_indexing_progress(create_stderr_console()) as report_progress:
            wait_for_indexes(client, report_progress)
        yield client


def _ask_with_progress(client: Client, skills: Sequence[str], questions: Sequence[Question]) -> Answers:
    console = create_stderr_console()
    tracked = track(questions, "Asking", console=console, transient=True, disable=not console.is_terminal)
    return ask_with_each_skill(client, skills, tracked, lambda: None)


@dataclass(frozen=True, slots=True)
class SkillSelection:
    """Unique names of skills, and the folders to search for them, in order of precedence."""

    names: tuple[str, ...]
    folders: tuple[Path, ...]


def parse_skills(arguments: Sequence[str], folders: Sequence[Path]) -> SkillSelection:
    """Parse skill arguments: names, or paths of skill folders, which contain a slash.

    Raises:
        click.UsageError: a folder has no skill file, or two skills have the same name.
    """
    paths = [Path(text).resolve() if _is_path(text) else None for text in arguments]
    names = [path.name if path else text for path, text in zip(paths, arguments, strict=True)]
    for path, text in zip(paths, arguments, strict=True):
        if path and not (path / SKILL_FILE).is_file():
            raise click.UsageError(f"{text}: {SKILL_FILE} is missing.")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise click.UsageError(f"Several skills have the name {min(repeated)}. Rename all folders but one.")
    libraries = [path.parent for path in paths if path]
    return SkillSelection(tuple(names), tuple(dict.fromkeys([*libraries, *(folder.resolve() for folder in folders)])))


def _is_path(text: str) -> bool:
    return os.sep in text or text in (os.curdir, os.pardir)


@dataclass(frozen=True, slots=True)
class EvidenceChange:
    """A question for which a skill returns different evidence than the baseline.

    Attributes:
        gained: sorted ids of the evidence that only the skill returns.
        lost: sorted ids of the evidence that only the baseline returns.
    """

    question: Question
    gained: tuple[str, ...]
    lost: tuple[str, ...]


def ask_with_each_skill(
    client: Client, skills: Sequence[str], questions: Iterable[Question], cost: Cost
) -> dict[str, list[Answer]]:
    """Ask every question with every skill.

    The order of the skills rotates from question to question, because the first call for a question also embeds it.

    Raises:
        NoMemoryError: a call failed, or a skill does not exist.
    """
    answers: dict[str, list[Answer]] = {skill: [] for skill in skills}
    for number, question in enumerate(questions):
        if not number:
            for skill in skills:
                ask_question(client, RecallMethod(skill), question, cost)
        first = number % len(skills)
        for skill in (*skills[first:], *skills[:first]):
            answers[skill].append(ask_question(client, RecallMethod(skill), question, cost))
    return answers


def find_evidence_changes(before: Sequence[Answer], after: Sequence[Answer]) -> Iterator[EvidenceChange]:
    """Yield the questions whose evidence differs between two lists of answers to the same questions."""
    for old, new in zip(before, after, strict=True):
        baseline, changed_to = _list_retrieved_evidence_ids(old), _list_retrieved_evidence_ids(new)
        if baseline != changed_to:
            gained, lost = sorted(changed_to - baseline), sorted(baseline - changed_to)
            yield EvidenceChange(old.question, tuple(gained), tuple(lost))


def _list_retrieved_evidence_ids(answer: Answer) -> frozenset[str]:
    return answer.question.evidence.intersection(answer.result.message_ids)


def to_json(answers: Answers) -> dict[str, Any]:
    """Return the figures of each skill, and its evidence changes against the first skill, as JSON.

    `{"skills": {SKILL: {"all": figures, "categories": {CATEGORY: figures}}}, "changes": {SKILL: [{"question_id",
    "user_id", "category", "question", "gained", "lost"}]}}`.
    """
    return {
        "skills": {skill: summarize_answers(results) for skill, results in answers.items()},
        "changes": {
            skill: [_build_change_record(item) for item in changed]
            for skill, changed in find_changes_by_skill(answers).items()
        },
    }


def find_changes_by_skill(answers: Answers) -> Mapping[str, Sequence[EvidenceChange]]:
    """Return the evidence changes of each skill against the first skill."""
    first, *others = answers
    return {skill: list(find_evidence_changes(answers[first], answers[skill])) for skill in others}


def render_report(answers: Answers) -> Iterator[Table | Text]:
    """Yield the table of figures, then the evidence changes of each skill against the first skill."""
    yield build_skill_table({skill: summarize_answers(results) for skill, results in answers.items()})
    first = next(iter(answers))
    for skill, changed in find_changes_by_skill(answers).items():
        yield Text()
        yield from _render_changes(first, skill, changed, len(answers[skill]))


def _render_changes(first: str, skill: str, changed: Sequence[EvidenceChange], questions: int) -> Iterator[Text]:
    count = f"{len(changed):,} of {pluralize(questions, 'question')}"
    yield Text(f"{skill} against {first}: {count} changed", style="bold")
    for item in changed:
        text = Text(to_single_line(item.question.text))
        text.truncate(_TEXT_MAX, overflow="ellipsis")
        yield Text(
            f"  {to_single_line(item.question.question_id)}  {to_single_line(item.question.category)}  "
        ).append_text(text)
        for sign, ids, style in (("+", item.gained, "green"), ("−", item.lost, "red")):
            if ids:
                yield Text(f"    {sign} {to_single_line(' '.join(ids))}", style=style)


def _build_change_record(change: EvidenceChange) -> dict[str, Any]:
    question = change.question
    return {
        "question_id": question.question_id,
        "user_id": question.user_id,
        "category": question.category,
        "question": question.text,
        "gained": list(change.gained),
        "lost": list(change.lost),
    }


def main() -> None:
    """Run the command. Exit statuses: 0 success, 1 failure, 2 invalid usage."""
    sys.exit(compare_skills.main(prog_name="scripts/compare_skills"))


if __name__ == "__main__":
    main()
