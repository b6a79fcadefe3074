"""`nomemory skill new`."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import click

from nomemory.cli.configuration import load_settings
from nomemory.cli.skill.check import render_text
from nomemory.cli.terminal import to_single_line
from nomemory.recall.authoring import scaffold
from nomemory.recall.llm.chat_model import ChatFailedError
from nomemory.recall.llm.json_answer import InvalidAnswerError
from nomemory.recall.skills.folder import SKILL_FILE, SkillInvalidError, SkillNotFoundError
from nomemory.recall.skills.loader import CREATOR_SKILL, SkillLibrary
from nomemory.recall.skills.steering.steering import LEXICON_FILE
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import ExtraMissingError
from nomemory.server.runtime.wiring.recall_planner import create_recall_model
from nomemory.server.runtime.wiring.recall_wiring import list_skill_folders
from nomemory.text.language import Language, detect_language


@click.command("new")
@click.option("--scenario", required=True, metavar="SENTENCE", help="Purpose of the skill, in one sentence.")
@click.option("--name", metavar="NAME", help="Name of the skill. Default: derived from the sentence.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    show_default=True,
    help="Directory in which to create the skill.",
)
@click.option(
    "--language",
    type=click.Choice(["zh", "en"]),
    help="Language of the skill. Default: the language of the sentence.",
)
def create_skill(*, scenario: str, name: str | None, out: Path, language: str | None) -> None:
    """Create a recall skill from one sentence.

    If NOMEMORY_RECALL_MODEL is set, the chat model drafts a lexicon from the sentence. The created skill passes
    `nomemory skill check`.
    """
    sentence = scaffold.to_single_line(scenario)
    if not any(map(str.isalnum, sentence)):
        raise click.UsageError("--scenario must contain a letter or a digit.")
    name = name or scaffold.derive_skill_name(sentence)
    settings = load_settings()
    template = _fill_template(settings, Language(language) if language else detect_language(sentence))
    files = {SKILL_FILE: scaffold.render_skill(template, name, sentence), **_draft_files(sentence, settings)}
    try:
        report = scaffold.create_skill(files, name, out)
    except scaffold.SkillNotCreatedError as refused:
        raise click.ClickException(f"{to_single_line(str(refused))}.") from None
    click.echo(f"Wrote {render_text(report)}")
    click.echo(
        f"Serve it with NOMEMORY_RECALL_SKILL_DIRS={click.format_filename(report.path.parent)}, "
        f"and ask with: nomemory recall --skill {report.name} …",
        err=True,
    )


def _fill_template(settings: Settings, language: Language) -> str:
    """Return the creator skill's template for a language. An operator may have replaced the creator skill."""
    file = scaffold.TEMPLATE_FILES[language]
    try:
        creator = SkillLibrary(list_skill_folders(settings), CREATOR_SKILL).load()
    except (SkillInvalidError, SkillNotFoundError) as refused:
        raise click.ClickException(f"{refused}.") from None
    if file not in creator.references:
        raise click.ClickException(f"The skill {CREATOR_SKILL} does not contain {file}. Add the file to the skill.")
    return creator.references[file]


def _draft_files(scenario: str, settings: Settings) -> dict[str, str]:
    """Return the name and text of the lexicon that the chat model drafts; empty if there is no draft."""
    if not settings.recall.model or settings.recall.planner == "rules":
        return {}
    try:
        return {LEXICON_FILE: asyncio.run(_draft_lexicon(scenario, settings))}
    except (ChatFailedError, ExtraMissingError) as failure:
        reason = str(failure)
    except InvalidAnswerError:
        reason = "the answer of the chat model is invalid; run the command again or use another model"
    click.echo(f"The lexicon was not drafted: {reason}.", err=True)
    return {}


async def _draft_lexicon(scenario: str, settings: Settings) -> str:
    async with AsyncExitStack() as stack:
        return await scaffold.draft_lexicon(scenario, create_recall_model(settings, stack))
