"""Checks skills for `nomemory skill check`. Importing this loads the recall agent's definitions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import click

from nomemory.cli.skill.report import as_record, as_text
from nomemory.recall.authoring.lint.check import check, skills_at


def pass_(paths: Iterable[Path], *, as_json: bool) -> bool:
    """Check the skills at some paths, show what is found, and tell whether there is no error."""
    reports = [check(folder) for folder in dict.fromkeys(chain.from_iterable(map(skills_at, paths)))]
    for report in reports:
        click.echo(as_record(report) if as_json else as_text(report))
    return not any(report.errors for report in reports)
