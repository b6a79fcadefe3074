"""Validate recall skills: check that they load and that planners can use them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.recall.authoring.calls import check_calls
from nomemory.recall.authoring.rules import Finding, Rule, Severity
from nomemory.recall.reading.skill_text import MAX_GUIDANCE_CHARS, extract_guidance
from nomemory.recall.skills.folder import SKILL_FILE, SkillFolder, SkillInvalidError, SkillNotFoundError
from nomemory.recall.skills.frontmatter import FrontmatterError, read_frontmatter
from nomemory.recall.skills.loader import FRONTMATTER_KEYS, Skill, SkillLibrary
from nomemory.recall.skills.steering.outline import SectionKind, parse_sections
from nomemory.recall.skills.steering.steering import read_planner_configuration

_EVIDENCE_FIELDS: Final = ("message_id", "ts", "role", "content", "time_range")
_RULE_ORDER: Final = {rule: index for index, rule in enumerate(Rule)}


@dataclass(frozen=True, slots=True)
class SkillReport:
    """Problems that a check found in one skill, sorted by file and line.

    `path` is the folder as passed by the caller.
    """

    path: Path
    findings: tuple[Finding, ...]

    @property
    def name(self) -> str:
        """The name of the skill's folder."""
        return _to_absolute_path(self.path).name

    @property
    def error_count(self) -> int:
        """The number of findings that are errors."""
        return sum(finding.rule.severity is Severity.ERROR for finding in self.findings)

    @property
    def warning_count(self) -> int:
        """The number of findings that are warnings."""
        return len(self.findings) - self.error_count


def check_skill(folder: Path) -> SkillReport:
    """Check the skill in a folder.

    If the folder contains no skill, the report contains an error. No file is executed or changed.
    """
    absolute = _to_absolute_path(folder)
    texts = _read_texts(absolute)
    findings = [*_find_loading_errors(absolute, texts.get(SKILL_FILE, "")), *_check_skill_structure(texts)]
    for file, text in texts.items():
        findings += check_calls(file, text)
    return SkillReport(folder, tuple(sorted(set(findings), key=_build_sort_key)))


def find_skill_folders(path: Path) -> list[Path]:
    """Return the skill folders at a path, which may be a skill folder, a SKILL.md or a folder of skills."""
    if path.name == SKILL_FILE and path.is_file():
        return [path.parent]
    if (path / SKILL_FILE).exists() or not path.is_dir():
        return [path]
    return sorted(file.parent for file in path.glob(f"*/{SKILL_FILE}")) or [path]


def _to_absolute_path(folder: Path) -> Path:
    return Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow the symbolic links that the loader checks


def _read_texts(folder: Path) -> dict[str, str]:
    """Return the texts of a skill's files as far as they can be read, even if the skill does not load."""
    texts: dict[str, str] = {}
    try:
        files = SkillFolder(folder, folder.parent)
        texts[SKILL_FILE] = files.read_skill_file()
        texts.update(files.read_references())
    except (SkillInvalidError, OSError):
        pass  # The loader reports this error.
    return texts


def _find_loading_errors(folder: Path, text: str) -> Iterator[Finding]:
    """Load the skill; report a load error, or a text for chat models that is too long."""
    try:
        skill = SkillLibrary([folder.parent], folder.name).load(folder.name)
    except SkillNotFoundError as error:
        yield Finding(SKILL_FILE, 0, Rule.NAME if folder.is_dir() else Rule.FOLDER, str(error))
    except SkillInvalidError as error:
        rule = next(rule for rule in Rule if rule.id == error.code.value)
        yield Finding(error.file, _find_line(rule.id, text), rule, error.reason)
    else:
        yield from _check_skill_length(skill)


def _check_skill_length(skill: Skill) -> Iterator[Finding]:
    if len(extract_guidance(skill)) > MAX_GUIDANCE_CHARS:
        sentence = f"the text for a chat model exceeds {MAX_GUIDANCE_CHARS:,} characters: the rest is ignored"
        yield Finding(SKILL_FILE, 0, Rule.LENGTH, sentence)


def _check_skill_structure(texts: Mapping[str, str]) -> Iterator[Finding]:
    """Check the sections of a skill, and their entries for the rule-based planner."""
    text = texts.get(SKILL_FILE, "")
    for key in _find_ignored_keys(text):
        yield Finding(SKILL_FILE, _find_line(key, text), Rule.FRONTMATTER_KEY, f"`{key}` is ignored")
    for item in read_planner_configuration(texts).invalid_entries:
        yield Finding(item.file, item.line, Rule.INVALID_ENTRY, item.problem)
    by_kind = {section.kind: section for section in parse_sections(text) if section.kind}
    scenario, evidence = by_kind.get(SectionKind.SCENARIO), by_kind.get(SectionKind.EVIDENCE_CONTRACT)
    for kind in SectionKind if scenario else ():
        if scenario and kind not in by_kind:
            yield Finding(SKILL_FILE, scenario.line, Rule.SECTIONS, f"section {kind.value} is missing")
    for name in _EVIDENCE_FIELDS if evidence else ():
        if evidence and not re.search(rf"(?<![A-Za-z_]){name}(?![A-Za-z_])", evidence.prose):
            yield Finding(SKILL_FILE, evidence.line, Rule.EVIDENCE, f"`{name}` is missing")


def _find_ignored_keys(text: str) -> set[str]:
    try:
        return set(read_frontmatter(text).values) - set(FRONTMATTER_KEYS)
    except FrontmatterError:
        return set()


def _find_line(key: str, text: str) -> int:
    """Return the number of the first line that sets a key; 0 if no line sets it."""
    return next((number for number, line in enumerate(text.split("\n"), 1) if line.startswith(f"{key}:")), 0)


def _build_sort_key(finding: Finding) -> tuple[bool, str, int, int, str]:
    return finding.file != SKILL_FILE, finding.file, finding.line, _RULE_ORDER[finding.rule], finding.problem
