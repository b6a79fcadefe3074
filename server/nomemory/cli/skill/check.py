"""`nomemory skill check`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import click

from nomemory.cli.terminal import encode_json_line, pluralize, to_single_line
from nomemory.recall.authoring.check import SkillReport, check_skill, find_skill_folders
from nomemory.recall.authoring.rules import Finding


def render_text(report: SkillReport) -> str:
    """Return a heading for the skill and a line for each finding."""
    counts = (
        pluralize(number, noun)
        for number, noun in ((report.error_count, "error"), (report.warning_count, "warning"))
        if number
    )
    heading = f"{to_single_line(click.format_filename(report.path))}: {', '.join(counts) or 'ok'}"
    return "\n".join((heading, *(f"  {_format_finding(finding)}" for finding in report.findings)))


def render_record(report: SkillReport) -> str:
    """Return the report as a JSON line."""
    record = {
        "skill": report.name,
        "path": click.format_filename(report.path),
        "errors": report.error_count,
        "warnings": report.warning_count,
        "findings": [_build_finding_record(finding) for finding in report.findings],
    }
    return encode_json_line(record)


def _format_finding(finding: Finding) -> str:
    location = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return to_single_line(f"{location}: {finding.rule.severity.value} [{finding.rule.id}] {finding.problem}")


def _build_finding_record(finding: Finding) -> dict[str, object]:
    return {
        "file": finding.file,
        "line": finding.line,
        "rule": finding.rule.id,
        "severity": finding.rule.severity.value,
        "sentence": finding.problem,
    }


@click.command("check")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per skill.")
def check_skills(*, paths: Sequence[Path], as_json: bool) -> None:
    """Check recall skills: format, call examples, and the absence of user ids.

    A PATH is the folder of a skill, its SKILL.md, or a folder of skills. docs/skills.md lists the rules. The exit
    status is 1 if there is an error, and 0 if there are only warnings.
    """
    reports = [check_skill(folder) for folder in dict.fromkeys(chain.from_iterable(map(find_skill_folders, paths)))]
    for report in reports:
        click.echo(render_record(report) if as_json else render_text(report))
    if any(report.error_count for report in reports):
        raise click.exceptions.Exit(1)
