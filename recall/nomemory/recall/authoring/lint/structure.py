"""Checks that a skill loads, by loading it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.recall.authoring.lint.finding import Finding, Rule
from nomemory.recall.authoring.lint.rules import (
    DESCRIPTION,
    FOLDER,
    FRONTMATTER,
    FRONTMATTER_KEY,
    HOST_LIMIT,
    NAME,
    TEXT,
)
from nomemory.recall.skills.errors import SKILL_FILE, SkillFault, SkillInvalidError, SkillNotFoundError
from nomemory.recall.skills.folder import SkillFolder
from nomemory.recall.skills.frontmatter import FrontmatterError, frontmatter_lines, read_frontmatter
from nomemory.recall.skills.host_settings import host_settings
from nomemory.recall.skills.loader import SkillLibrary
from nomemory.recall.skills.skill import Skill
from nomemory.recall.skills.steering.outline import SectionKind, sections

_RULES: Final = {
    SkillFault.FOLDER: FOLDER,
    SkillFault.TEXT: TEXT,
    SkillFault.FRONTMATTER: FRONTMATTER,
    SkillFault.NAME: NAME,
    SkillFault.DESCRIPTION: DESCRIPTION,
}
_KEYS: Final = {"name", "description"}


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
