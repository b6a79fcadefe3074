"""What a check of a skill found, for people and for programs."""

from __future__ import annotations

import click

from nomemory.cli.figures import counted
from nomemory.cli.json_text import json_line
from nomemory.cli.printable import one_line
from nomemory.recall.authoring.lint.check import Report
from nomemory.recall.authoring.lint.finding import Finding


def as_text(report: Report) -> str:
    """Write a heading for the skill, and a line for each finding."""
    counts = (
        counted(number, what) for number, what in ((report.errors, "error"), (report.warnings, "warning")) if number
    )
    heading = f"{one_line(click.format_filename(report.path))}: {', '.join(counts) or 'ok'}"
    return "\n".join((heading, *(f"  {_line(finding)}" for finding in report.findings)))


def as_record(report: Report) -> str:
    """Write one JSON object."""
    record = {
        "skill": report.name,
        "path": click.format_filename(report.path),
        "errors": report.errors,
        "warnings": report.warnings,
        "findings": [_record(finding) for finding in report.findings],
    }
    return json_line(record)


def _line(finding: Finding) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return one_line(f"{place}: {finding.rule.severity.value} [{finding.rule.id}] {finding.sentence}")


def _record(finding: Finding) -> dict[str, object]:
    return {
        "file": finding.file,
        "line": finding.line,
        "rule": finding.rule.id,
        "severity": finding.rule.severity.value,
        "sentence": finding.sentence,
    }
