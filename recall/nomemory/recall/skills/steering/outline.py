"""A skill's text as sections with entries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from markdown_it.token import Token

from nomemory.recall.skills.markdown import block_tokens, first_line
from nomemory.recall.skills.steering.entry import Entry, entries

_BETWEEN_NAMES: Final = re.compile(r"[·・|/:：()（）—–]")
_NUMBER: Final = re.compile(r"[0-9]{1,3}[.)、]?\s+")
_SECTION_LEVEL: Final = 2


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
class Part:
    """The text under one heading. The first part of a section has the section's own heading.

    `prose` is the text of its paragraphs, items and cells.
    """

    title: str
    line: int
    entries: tuple[Entry, ...]
    prose: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of the first or second level and all that stands under it; `kind` is None where the form has no name.

    What stands before a file's first heading is a section without a title. Code blocks, HTML and the frontmatter are
    left out. `lines` are counted from 1.
    """

    kind: SectionKind | None
    title: str
    lines: range
    parts: tuple[Part, ...]

    @property
    def line(self) -> int:
        """Return the line at which it begins."""
        return self.lines.start


@dataclass(slots=True)
class _Open:
    """A heading, and what was found under it so far."""

    level: int
    title: str
    line: int
    tokens: list[Token] = field(default_factory=list)

    def part(self) -> Part:
        prose = "\n".join(token.content for token in self.tokens if token.type == "inline")
        return Part(self.title, self.line, tuple(entries(self.tokens)), prose)


def sections(text: str) -> tuple[Section, ...]:
    """Part a text into its sections. Any text has an outline."""
    found: list[list[_Open]] = [[]]
    for heading in _headings(text):
        if heading.level <= _SECTION_LEVEL and found[-1]:
            found.append([])
        found[-1].append(heading)
    ends = [*(headings[0].line for headings in found[1:]), text.count("\n") + 2]
    return tuple(_section(headings, end) for headings, end in zip(found, ends, strict=True))


def heading_names(title: str) -> tuple[str, ...]:
    """Return the names that a heading carries, as they are compared: `默认值 · Defaults` has two."""
    return tuple(_compared(name) for name in _BETWEEN_NAMES.split(title))


def _compared(name: str) -> str:
    return " ".join(_NUMBER.sub("", name.strip(" \t*`#_"), count=1).casefold().split())


def _section(headings: list[_Open], end: int) -> Section:
    first = headings[0]
    kinds = (_NAMES.get(name) for name in heading_names(first.title))
    lines = range(first.line, max(first.line + 1, end))
    return Section(next(filter(None, kinds), None), first.title, lines, tuple(one.part() for one in headings))


def _headings(text: str) -> Iterator[_Open]:
    """Return each heading with what stands under it; level 0 is what stands before the first heading."""
    under = _Open(0, "", 1)
    tokens = iter(block_tokens(text))
    for token in tokens:
        if token.type == "heading_open" and token.level == 0:
            yield under
            under = _Open(int(token.tag[1]), next(tokens).content, first_line(token))
        else:
            under.tokens.append(token)
    yield under
