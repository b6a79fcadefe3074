"""`nomemory skill`: the commands about recall skills."""

from __future__ import annotations

import click

from nomemory.cli.skill.check import check
from nomemory.cli.skill.new import new


@click.group("skill")
def skill() -> None:
    """Write and check recall skills.

    A recall skill is a folder with a SKILL.md that says how to search; docs/skills.md has its form.
    """


for _command in (new, check):
    skill.add_command(_command)
