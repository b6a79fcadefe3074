"""A skill's text as sections: which of them steer, and the lines that stand in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_FENCE: Final = re.compile(r"\s*(```|~~~)")
_BETWEEN_NAMES: Final = re.compile(r"[·・|/:：()（）—–]")
_NUMBER: Final = re.compile(r"[0-9]{1,3}[.)、]?\s+")
_SECTION_LEVEL: Final = 2
_FRONTMATTER: Final = "---"


class SectionKind(Enum):
    """The sections that a skill's form knows."""

    DEFAULTS = "Defaults"
    LEXICON = "Lexicon"
    QUERY_TEMPLATES = "Query Templates"
    SCENARIO = "Scenario"
    PLAYBOOK = "Playbook"
    EVIDENCE_CONTRACT = "Evidence Contract"


_NAMES: Final = {
    name: kind
    for kind, names in {
        SectionKind.DEFAULTS: ("defaults", "默认值"),
        SectionKind.LEXICON: ("lexicon", "词表", "词典"),
        SectionKind.QUERY_TEMPLATES: ("query templates", "查询模板"),
        SectionKind.SCENARIO: ("scenario", "场景"),
        SectionKind.PLAYBOOK: ("playbook", "打法", "应对"),
        SectionKind.EVIDENCE_CONTRACT: ("evidence contract", "证据契约"),
    }.items()
    for name in names
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file; its number is counted from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """What stands under one heading. The first part of a section has the section's own heading."""

    title: str
    line: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of the first or second level and all that stands under it; `kind` is None where the form has no name.

    What stands before a file's first heading is a section without a title. Code blocks, HTML comments and the
    frontmatter are left out.
    """

    kind: SectionKind | None
    title: str
    line: int
    parts: tuple[Part, ...]


def sections(text: str) -> tuple[Section, ...]:
    """Part a text into its sections, in one pass. Any text has an outline."""
    found: list[Section] = []
    open_: list[Part] = []
    for level, part in _parts(text):
        if level <= _SECTION_LEVEL and open_:
            found.append(_section(open_))
            open_ = []
        open_.append(part)
    return (*found, _section(open_))


def heading_names(title: str) -> tuple[str, ...]:
    """Return the names that a heading carries, as they are compared: `默认值 · Defaults` has two."""
    return tuple(_compared(name) for name in _BETWEEN_NAMES.split(title))


def _compared(name: str) -> str:
    return " ".join(_NUMBER.sub("", name.strip(" \t*`#_"), count=1).casefold().split())


def _section(parts: list[Part]) -> Section:
    first = parts[0]
    kinds = (_NAMES.get(name) for name in heading_names(first.title))
    return Section(next(filter(None, kinds), None), first.title, first.line, tuple(parts))


def _parts(text: str) -> Iterator[tuple[int, Part]]:
    """Return each heading's level and what stands under it; level 0 is what stands before the first heading."""
    level, title, line = 0, "", 1
    lines: list[Line] = []
    for read in _prose(text):
        heading = _HEADING.fullmatch(read.text)
        if heading is None:
            lines.append(read)
            continue
        yield level, Part(title, line, tuple(lines))
        level, title, line = len(heading[1]), heading[2].strip(), read.number
        lines = []
    yield level, Part(title, line, tuple(lines))


def _prose(text: str) -> Iterator[Line]:
    """Return the lines outside of frontmatter, code blocks and comments."""
    hidden_until = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip()
        if hidden_until:
            hidden_until = "" if _ends(line, hidden_until) else hidden_until
        elif number == 1 and line == _FRONTMATTER:
            hidden_until = _FRONTMATTER
        elif fence := _FENCE.match(line):
            hidden_until = fence[1]
        elif line.lstrip().startswith("<!--"):
            hidden_until = "" if "-->" in line else "-->"
        elif line.strip():
            yield Line(number, line)


def _ends(line: str, mark: str) -> bool:
    return mark in line if mark == "-->" else line.strip().startswith(mark)
