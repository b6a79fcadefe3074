"""Checks recall skills: whether they load, and whether a planner can rely on them.

Checks the form of a skill: that it loads, that its sections belong together, that what steers can be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.recall.authoring.calls import call_findings, user_ids
from nomemory.recall.authoring.document import (
    DESCRIPTION,
    DURATION,
    EVIDENCE,
    FOLDER,
    FRONTMATTER,
    FRONTMATTER_KEY,
    HOST_LIMIT,
    LENGTH,
    NAME,
    RULES,
    SECTIONS,
    TEXT,
    UNREADABLE,
    Document,
    Finding,
    Rule,
    read_document,
)
from nomemory.recall.reading.guidance import GUIDANCE_CHARS, guidance
from nomemory.recall.skills.folder import SKILL_FILE, SkillFault, SkillFolder, SkillInvalidError, SkillNotFoundError
from nomemory.recall.skills.frontmatter import FrontmatterError, frontmatter_lines, host_settings, read_frontmatter
from nomemory.recall.skills.loader import Skill, SkillLibrary
from nomemory.recall.skills.steering.defaults import WINDOW, WINDOW_WRONG, window_in
from nomemory.recall.skills.steering.outline import Section, SectionKind, UnreadableKind, sections
from nomemory.recall.skills.steering.steering import read_steering

_RULES: Final = {
    SkillFault.FOLDER: FOLDER,
    SkillFault.TEXT: TEXT,
    SkillFault.FRONTMATTER: FRONTMATTER,
    SkillFault.NAME: NAME,
    SkillFault.DESCRIPTION: DESCRIPTION,
}
_KEYS: Final = {"name", "description"}
_WINDOW: Final = re.compile(rf"(?<!\w){WINDOW}[`*\"']*\s*[:：=]\s*[`*\"']*([^\s`*\"'|,，;；。()（）]+)", re.IGNORECASE)
_TO_FILL_IN: Final = re.compile(r"[{<…$]|\.\.\.")
_FIELDS: Final = ("message_id", "ts", "role", "content", "time_range")
_UNREADABLE_RULES: Final = {UnreadableKind.DURATION: DURATION, UnreadableKind.ENTRY: UNREADABLE}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading a skill.

    `skill` is None if it does not load; `texts` are the files that can be read all the same, whole, by relative path.
    """

    skill: Skill | None
    texts: Mapping[str, str]
    findings: tuple[Finding, ...]


def load(folder: Path) -> Loaded:
    """Load a skill from its folder, an absolute path."""
    texts = _texts(folder)
    try:
        skill = SkillLibrary([folder.parent], folder.name).load(folder.name)
    except SkillNotFoundError as refused:
        rule = NAME if folder.is_dir() else FOLDER
        return Loaded(None, texts, (Finding(SKILL_FILE, 0, rule, str(refused)),))
    except SkillInvalidError as refused:
        return Loaded(None, texts, (_refusal(refused, texts.get(SKILL_FILE, "")),))
    return Loaded(skill, texts, ())


def _texts(folder: Path) -> dict[str, str]:
    """Read what can be read: the texts are checked even where the skill does not load."""
    texts: dict[str, str] = {}
    try:
        files = SkillFolder(folder, folder.parent)
        texts[SKILL_FILE] = files.body()
        texts.update(files.references())
    except (SkillInvalidError, OSError):
        pass  # the loader says so
    return texts


def _refusal(refused: SkillInvalidError, text: str) -> Finding:
    rule = _RULES[refused.code]
    return Finding(refused.file, _line_of_rule(rule, text), rule, refused.why)


def _line_of_rule(rule: Rule, text: str) -> int:
    if rule in (NAME, DESCRIPTION):
        return _line_of_key(rule.id, text)
    return 1 if rule is FRONTMATTER else 0


def ignored(text: str) -> Iterator[Finding]:
    """Find what a SKILL.md tries to set and the loader ignores: keys of the frontmatter, limits of the host."""
    try:
        keys = set(read_frontmatter(text).values)
    except FrontmatterError:
        keys = set()
    for key in keys - _KEYS:
        line = _line_of_key(key, text)
        yield Finding(SKILL_FILE, line, FRONTMATTER_KEY, f"`{key}` is ignored")
    lexicon = _lexicon_lines(text)
    body = frontmatter_lines(text)
    for number, one in enumerate(text.split("\n")[body:], body + 1):
        for name in host_settings(one) if number not in lexicon else ():
            yield Finding(SKILL_FILE, number, HOST_LIMIT, f"`{name}` is ignored: it is the host's")


def _lexicon_lines(text: str) -> frozenset[int]:
    """Return the lines of the lexicon: `- budget: cost` sets nothing there."""
    lexicons = (section for section in sections(text) if section.kind is SectionKind.LEXICON)
    return frozenset(number for section in lexicons for number in section.lines)


def _line_of_key(key: str, text: str) -> int:
    """Find the first line that sets a key; 0: there is none."""
    setting = re.compile(rf"[ \t]*(?:[-*+][ \t]+)?[*_`]*{re.escape(key)}[*_`]*[ \t]*[:=：]", re.IGNORECASE)
    return next((number for number, line in enumerate(text.split("\n"), 1) if setting.match(line)), 0)


def contract_findings(texts: Mapping[str, str]) -> Iterator[Finding]:
    """Check the form of a skill, whose texts are given by their relative paths."""
    for one in read_steering(texts).unreadable:
        yield Finding(one.file, one.line, _UNREADABLE_RULES[one.kind], one.why)
    form = sections(texts.get(SKILL_FILE, ""))
    yield from _missing_sections(form)
    yield from _missing_fields(form)


def duration_findings(document: Document) -> Iterator[Finding]:
    """Find durations that are none, wherever a text sets a default range. What stands in braces is to be filled in."""
    for line in document.lines:
        for setting in _WINDOW.finditer(line.text):
            if not _TO_FILL_IN.search(setting[1]) and window_in(setting[1]) is None:
                yield Finding(document.file, line.number, DURATION, WINDOW_WRONG)


def _missing_sections(form: Iterable[Section]) -> Iterator[Finding]:
    """Find missing sections. A skill with a Scenario has all sections of the form."""
    stands = {section.kind: section.line for section in form if section.kind}
    if SectionKind.SCENARIO in stands:
        for kind in SectionKind:
            if kind not in stands:
                yield Finding(SKILL_FILE, stands[SectionKind.SCENARIO], SECTIONS, f"there is no section {kind.value}")


def _missing_fields(form: Iterable[Section]) -> Iterator[Finding]:
    for section in filter(_is_evidence, form):
        text = "\n".join(part.prose for part in section.parts)
        missing = [field for field in _FIELDS if not re.search(rf"(?<![A-Za-z_]){field}(?![A-Za-z_])", text)]
        if missing:
            yield Finding(
                SKILL_FILE, section.line, EVIDENCE, f"it does not name {', '.join(f'`{one}`' for one in missing)}"
            )


def _is_evidence(section: Section) -> bool:
    return section.kind is SectionKind.EVIDENCE_CONTRACT


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
