"""`nomemory skill new`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from nomemory.cli.configuration import configured
from nomemory.cli.skill.check import as_text
from nomemory.cli.terminal import one_line
from nomemory.recall.authoring import creation, model_draft
from nomemory.recall.authoring.check import Report
from nomemory.recall.authoring.creation import TEMPLATE_FILES, TemplateError, rendered
from nomemory.recall.authoring.draft import (
    QUESTIONS,
    Answers,
    Choice,
    Draft,
    EmptyScenarioError,
    Scenario,
    answered,
    default_draft,
    name_for,
    read_scenario,
)
from nomemory.recall.llm.chat_model import ChatFailedError
from nomemory.recall.llm.json_answer import BadAnswerError
from nomemory.recall.skills.loader import SkillInvalidError, SkillLibrary, SkillNotFoundError
from nomemory.server.composition.recall_host import recall_model, skill_folders
from nomemory.server.settings import Settings
from nomemory.text.language import Language

_CREATOR: Final = "retrieval-skill-creator"
_LETTERS: Final = "ABC"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for. `ask` tells to put the questions; else their defaults hold."""

    scenario: str
    name: str | None
    out: Path
    language: str | None
    ask: bool
    force: bool


@click.command("new")
@click.option("--scenario", required=True, metavar="SENTENCE", help="What the skill is for, in one sentence.")
@click.option("--name", metavar="NAME", help="The skill's name. Default: made from the sentence.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    show_default=True,
    help="The folder of skills to put it into.",
)
@click.option("--language", type=click.Choice(["zh", "en"]), help="The language to write in. Default: the sentence's.")
@click.option("--no-input", is_flag=True, help="Ask nothing: take the defaults.")
@click.option("--force", is_flag=True, help="Replace the SKILL.md and lexicon of a folder that exists.")
def new(
    *,
    scenario: str,
    name: str | None,
    out: Path,
    language: str | None,
    no_input: bool,
    force: bool,
) -> None:
    """Write a recall skill from one sentence.

    It asks three questions, each with a default. Where NOMEMORY_RECALL_MODEL names a chat model, the model drafts the
    lexicon and the queries from the sentence; else they are general. What is written passes `nomemory skill check`.
    """
    _make(Wanted(scenario, name, out, language, ask=not no_input, force=force))


def _make(wanted: Wanted) -> None:
    """Write the skill and say where it is.

    Raises:
        click.ClickException: it cannot be made; nothing was written.
    """
    scenario = _scenario(wanted)
    name = wanted.name or name_for(scenario)
    settings = configured()
    template = _template(settings, scenario.language)
    try:
        creation.expect_room(name, wanted.out, force=wanted.force)
        draft = default_draft(name, scenario, _answers(wanted, scenario.language))
        report = creation.put(_files(draft, template, settings), name, wanted.out, force=wanted.force)
    except creation.NotPassedError as refused:
        raise click.ClickException(f"{refused}.\n{as_text(refused.report)}") from None
    except (creation.NotCreatedError, TemplateError) as refused:
        raise click.ClickException(f"{one_line(str(refused))}.") from None
    _tell(report)


def _scenario(wanted: Wanted) -> Scenario:
    try:
        return read_scenario(wanted.scenario, Language(wanted.language) if wanted.language else None)
    except EmptyScenarioError as refused:
        raise click.UsageError(f"--scenario: {refused}.") from None


def _template(settings: Settings, language: Language) -> str:
    """Find the template of a language in the creator's own skill, which an operator may have replaced."""
    file = TEMPLATE_FILES[language]
    try:
        creator = SkillLibrary(skill_folders(settings), _CREATOR).load()
    except (SkillInvalidError, SkillNotFoundError) as refused:
        raise click.ClickException(f"{refused}.") from None
    if file not in creator.references:
        raise click.ClickException(f"the skill {_CREATOR} has no {file}.")
    return creator.references[file]


def _answers(wanted: Wanted, language: Language) -> Answers:
    questions = QUESTIONS if wanted.ask else ()
    return answered({one.field: _asked(one, language) for one in questions})


def _asked(question: Choice, language: Language) -> str:
    click.echo(question.asks[language], err=True)
    for letter, (_, says) in zip(_LETTERS, question.options, strict=True):
        click.echo(f"  {letter}. {says[language]}", err=True)
    return _letter()


def _letter() -> str:
    """Read an answer; where nobody is there to give one, it is the default."""
    letters = click.Choice(list(_LETTERS), case_sensitive=False)
    try:
        return str(click.prompt("A/B/C", default=_LETTERS[0], type=letters, show_choices=False, err=True))
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(_LETTERS[0], err=True)
        return _LETTERS[0]


def _files(draft: Draft, template: str, settings: Settings) -> dict[str, str]:
    """Write the model's draft down if there is a model and what it says passes, else the default one."""
    plain = rendered(draft, template)
    if not _has_model(settings):
        return plain
    improved, why = _improved(draft, settings)
    files = rendered(improved, template)
    if creation.trial(files, draft.name).errors:
        files, why = plain, "what the model gave does not pass the check"
    if why:
        click.echo(f"Without the model: {why}.", err=True)
    return files


def _has_model(settings: Settings) -> bool:
    """Return whether a server with these settings would ask a model."""
    return bool(settings.recall.model) and settings.recall.planner != "rules"


def _improved(draft: Draft, settings: Settings) -> tuple[Draft, str]:
    """Let the model improve a draft. Where it does not, give the draft as it is, and why."""
    try:
        return asyncio.run(_by_model(draft, settings)), ""
    except ChatFailedError as failure:
        return draft, str(failure)
    except BadAnswerError:
        return draft, "its answer cannot be used"


async def _by_model(draft: Draft, settings: Settings) -> Draft:
    async with AsyncExitStack() as stack:
        return await model_draft.improved(draft, recall_model(settings, stack))


def _tell(report: Report) -> None:
    click.echo(f"Wrote {as_text(report)}")
    click.echo(
        f"Serve it with NOMEMORY_RECALL_SKILLS={click.format_filename(report.path.parent)}, "
        f"and ask with: nomemory recall --skill {report.name} …",
        err=True,
    )
