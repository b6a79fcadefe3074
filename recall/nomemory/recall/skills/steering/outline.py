"""Reads Markdown into sections, and the entries in them: items of lists and rows of tables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from nomemory.recall.skills.frontmatter import frontmatter_lines

_PARSER: Final = MarkdownIt("commonmark").enable("table").disable(["code", "hr", "lheading", "reference"])
"""A deep indent makes no code, a line of dashes no rule and no heading, a bracket at its start no definition."""
_PARSER.core.ruler.enableOnly(["block"])
_COLON: Final = re.compile(r"[:：]")
_SEPARATORS: Final = re.compile(r"[,，、;；/|]")
_ASIDE: Final = re.compile(r"[\s(（,，;；·#。]")
_MARKS: Final = " \t*`"
_BETWEEN_NAMES: Final = re.compile(r"[·・|/:：()（）—–]")
_NUMBER: Final = re.compile(r"[0-9]{1,3}[.)、]?\s+")
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SECTION_LEVEL: Final = 2


def block_tokens(text: str) -> list[Token]:
    """Return the tokens of a text's blocks. The lines of their maps are counted from 0; frontmatter is left out."""
    lines = text.replace("\r\n", "\n").split("\n")
    head = frontmatter_lines(text)
    return _PARSER.parse("\n".join([*[""] * head, *lines[head:]]))


def first_line(token: Token) -> int:
    """Return the number of the first line of a token's block, counted from 1."""
    return token.map[0] + 1 if token.map else 1


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry that has no effect, or not the one that is written.

    `file` is the path within the skill, `line` is counted from 1, and `why` is a sentence without its full stop. It
    quotes nothing but the names that the form itself knows.
    """

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"`{self.file}` line {self.line}: {self.why}"


@dataclass(frozen=True, slots=True)
class Entry:
    """An item, parted at its first colon, or the first two cells of a row, without marks around them."""

    file: str
    line: int
    key: str
    value: str = ""

    @property
    def sets_something(self) -> bool:
        """Whether it looks like a setting, not like prose."""
        return bool(self.value and _KEY.fullmatch(self.key))

    def unreadable(self, why: str) -> Unreadable:
        """Say why it cannot be read."""
        return Unreadable(self.file, self.line, why)


def bare(text: str) -> str:
    """Strip spaces, backticks and the marks of bold from around a text."""
    return text.strip(_MARKS)


def listed(value: str) -> list[str]:
    """Return the items of a list that is written as one value, without the empty ones."""
    return [item for item in map(bare, _SEPARATORS.split(value)) if item]


def word(value: str) -> str:
    """Return a value's first word as it is compared: what follows in brackets or after a space is an aside."""
    return bare(_ASIDE.split(bare(unicodedata.normalize("NFKC", value)), maxsplit=1)[0]).casefold()


def named(text: str) -> str:
    """Return a key as it is compared: `First tool` and `first_tool` are one."""
    return "_".join(unicodedata.normalize("NFKC", text).casefold().replace("-", " ").replace("_", " ").split())


class SectionKind(Enum):
    """The sections that a skill's form knows."""

    DEFAULTS = "Defaults"
    LEXICON = "Lexicon"
    QUERY_TEMPLATES = "Query Templates"
    SCENARIO = "Scenario"
    PLAYBOOK = "Playbook"
    EVIDENCE_CONTRACT = "Evidence Contract"


_KINDS: Final = {kind.value.casefold(): kind for kind in SectionKind} | {
    "默认值": SectionKind.DEFAULTS,
    "词表": SectionKind.LEXICON,
    "词典": SectionKind.LEXICON,
    "查询模板": SectionKind.QUERY_TEMPLATES,
    "场景": SectionKind.SCENARIO,
    "打法": SectionKind.PLAYBOOK,
    "应对": SectionKind.PLAYBOOK,
    "证据契约": SectionKind.EVIDENCE_CONTRACT,
}


@dataclass(frozen=True, slots=True)
class Part:
    """The text under one heading; `prose` is that of its paragraphs, items and cells. Level 0: there is no heading."""

    level: int
    title: str
    line: int
    entries: tuple[Entry, ...]
    prose: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of the first or second level and all that stands under it; `kind` is None where the form has no name.

    What stands before a file's first heading is a section without a title. Code blocks, HTML, quotations and the
    frontmatter are left out. `lines` are counted from 1. The first part has the section's own heading.
    """

    kind: SectionKind | None
    lines: range
    parts: tuple[Part, ...]

    @property
    def line(self) -> int:
        """Return the line at which it begins."""
        return self.lines.start

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return the entries of all parts."""
        return tuple(entry for part in self.parts for entry in part.entries)

    @property
    def prose(self) -> str:
        """Return the text of all parts."""
        return "\n".join(part.prose for part in self.parts)


def sections(text: str, file: str = "") -> list[Section]:
    """Part a text into its sections. Any text has an outline."""
    parts = list(_parts(block_tokens(text), file))
    starts = [place for place, part in enumerate(parts) if part.level <= _SECTION_LEVEL]
    found = []
    for start, end in pairwise([*starts, len(parts)]):
        first = parts[start].line
        after = parts[end].line if end < len(parts) else text.count("\n") + 2
        found.append(Section(_kind(parts[start].title), range(first, max(first + 1, after)), tuple(parts[start:end])))
    return found


def _kind(title: str) -> SectionKind | None:
    """Return the kind that a heading names: `默认值 · Defaults` has two names."""
    names = (_NUMBER.sub("", name.strip(" \t*`#_"), count=1) for name in _BETWEEN_NAMES.split(title))
    return next((kind for name in names if (kind := _KINDS.get(" ".join(name.casefold().split())))), None)


def _parts(tokens: Sequence[Token], file: str) -> Iterator[Part]:
    headings = [place for place, token in enumerate(tokens) if token.type == "heading_open" and token.level == 0]
    ends = [*headings, len(tokens)]
    before = tokens[: ends[0]]
    yield Part(0, "", 1, tuple(_entries(before, file)), _prose(before))
    for start, end in pairwise(ends):
        heading, title, under = tokens[start], tokens[start + 1].content, tokens[start + 2 : end]
        yield Part(int(heading.tag[1]), title, first_line(heading), tuple(_entries(under, file)), _prose(under))


def _prose(tokens: Sequence[Token]) -> str:
    return "\n".join(token.content for token in tokens if token.type == "inline")


def _entries(tokens: Sequence[Token], file: str) -> Iterator[Entry]:
    """Read the items and rows among blocks of Markdown. Everything else, quotes and heads of tables too, is prose."""
    quoted = 0
    for place, token in enumerate(tokens):
        if token.type in {"blockquote_open", "blockquote_close"}:
            quoted += token.nesting
        elif token.type == "td_open" and not quoted and tokens[place - 1].type == "tr_open":
            cells = [bare(one.content) for one in tokens[place : place + 5] if one.type == "inline"]
            yield Entry(file, first_line(tokens[place - 1]), *cells)
        elif token.type == "inline" and not quoted and _begins_item(tokens, place):
            halves = _COLON.split(token.content.split("\n", 1)[0], maxsplit=1)
            yield Entry(file, first_line(token), *map(bare, halves))


def _begins_item(tokens: Sequence[Token], place: int) -> bool:
    return place > 1 and tokens[place - 1].type == "paragraph_open" and tokens[place - 2].type == "list_item_open"
