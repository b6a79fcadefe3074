"""Checks recall skills: whether they load, and whether a planner can rely on them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.recall.authoring.calls import call_findings, user_ids
from nomemory.recall.authoring.document import read_document
from nomemory.recall.authoring.rules import LENGTH, RULES, Finding
from nomemory.recall.authoring.structure import Loaded, contract_findings, duration_findings, ignored, load
from nomemory.recall.reading.guidance import GUIDANCE_CHARS, guidance
from nomemory.recall.skills.folder import SKILL_FILE

_PLACES: Final = {rule: place for place, rule in enumerate(RULES)}


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in one skill, by file and line. `path` is the folder as it was given."""

    path: Path
    findings: tuple[Finding, ...]

    @property
    def name(self) -> str:
        """Return the folder's name."""
        return _absolute(self.path).name

    @property
    def errors(self) -> int:
        """Count the errors."""
        return sum(finding.is_error for finding in self.findings)

    @property
    def warnings(self) -> int:
        """Count the warnings."""
        return len(self.findings) - self.errors


def check(folder: Path) -> Report:
    """Check the skill in a folder. A folder that is no skill has findings, too; nothing in it is run or changed."""
    loaded = load(_absolute(folder))
    found = {*loaded.findings, *_in_texts(loaded.texts), *contract_findings(loaded.texts), *_lengths(loaded)}
    return Report(folder, tuple(sorted(found, key=_order)))


def skills_at(path: Path) -> list[Path]:
    """Return the skills that a path means: a skill's folder, its SKILL.md, or a folder of skills."""
    if path.name == SKILL_FILE and path.is_file():
        return [path.parent]
    if (path / SKILL_FILE).exists() or not path.is_dir():
        return [path]
    return sorted(file.parent for file in path.glob(f"*/{SKILL_FILE}")) or [path]


def _absolute(folder: Path) -> Path:
    return Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow the links that the loader judges


def _in_texts(texts: Mapping[str, str]) -> Iterator[Finding]:
    yield from ignored(texts.get(SKILL_FILE, ""))
    for file, text in texts.items():
        document = read_document(file, text)
        yield from call_findings(document)
        yield from duration_findings(document)
        yield from user_ids(document)


def _lengths(loaded: Loaded) -> Iterator[Finding]:
    """Find texts that are too long to be shown to a model."""
    if loaded.skill is None:
        return
    if len(guidance(loaded.skill)) > GUIDANCE_CHARS:
        what = f"a chat model is shown {GUIDANCE_CHARS:,} characters of what does not speak of searching"
        yield Finding(SKILL_FILE, 0, LENGTH, what)


def _order(finding: Finding) -> tuple[bool, str, int, int, str]:
    return finding.file != SKILL_FILE, finding.file, finding.line, _PLACES[finding.rule.id], finding.sentence
