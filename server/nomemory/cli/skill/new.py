"""`nomemory skill new`."""

from __future__ import annotations

from pathlib import Path

import click

from nomemory.cli.target import Target, target_option


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
@click.option(
    "--messages",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Start the lexicon from one user's messages in this file (JSON Lines).",
)
@click.option("--user", metavar="USER", help="Whose messages: of the file, or else those that the server has.")
@target_option
def new(  # noqa: PLR0913 - a parameter for each option
    *,
    scenario: str,
    name: str | None,
    out: Path,
    language: str | None,
    no_input: bool,
    force: bool,
    messages: str | None,
    user: str | None,
    target: Target,
) -> None:
    """Write a recall skill from one sentence.

    It asks three questions, each with a default. The lexicon can start from the frequent terms of one user's own
    messages; keep such a skill to that user. Where NOMEMORY_RECALL_MODEL names a chat model, the model drafts the
    lexicon and the queries from the sentence and those terms; no message is sent to it. What is written passes
    `nomemory skill check`.
    """
    from nomemory.cli.skill import making  # noqa: PLC0415 - no other command needs what this loads

    source = making.Source(messages, user, target)
    wanted = making.Wanted(scenario, name, out, language, source, ask=not no_input, force=force)
    making.make(wanted)
