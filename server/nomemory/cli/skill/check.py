"""`nomemory skill check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click


@click.command("check")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per skill.")
def check(*, paths: Sequence[Path], as_json: bool) -> None:
    """Check recall skills: their form, their call examples, and that they name no user.

    A PATH is a skill's folder, its SKILL.md, or a folder of skills. docs/skills.md has the rules. The exit code is 1 if
    there is an error; warnings alone are 0.
    """
    from nomemory.cli.skill import checking  # noqa: PLC0415 - no other command needs what this loads

    if not checking.pass_(paths, as_json=as_json):
        raise click.exceptions.Exit(1)
