"""Reads Markdown into sections, and the entries in them: items of lists and rows of tables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from nomemory.recall.skills.frontmatter import frontmatter_lines

_NOT_IN_SKILLS: Final = ("code", "hr", "lheading", "reference")
"""A deep indent makes no code, a line of dashes no rule and no heading, a bracket at its start no definition."""
_PASSED_OVER: Final = {"blockquote_open": "blockquote_close", "thead_open": "thead_close"}
_COLON: Final = re.compile(r"[:：]")
_RULE: Final = re.compile(r"[\s|:-]+")
_SEPARATORS: Final = re.compile(r"[,，、;；/|]")
_ASIDE: Final = re.compile(r"[\s(（,，;；·#。]")
_MARKS: Final = " \t*`"
_BETWEEN_NAMES: Final = re.compile(r"[·・|/:：()（）—–]")
_NUMBER: Final = re.compile(r"[0-9]{1,3}[.)、]?\s+")
_SECTION_LEVEL: Final = 2


def _parser(*without: str) -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table").disable([*_NOT_IN_SKILLS, *without])
    parser.core.ruler.enableOnly(["block"])
    return parser


_BLOCKS: Final = _parser()
_BLOCKS_AND_COMMENTS: Final = _parser("html_block")


def block_tokens(text: str, *, in_comments: bool = False) -> list[Token]:
    """Return the tokens of a text's blocks. The lines of their maps are counted from 0; frontmatter is left out.

    Args:
        text: a whole file.
        in_comments: what stands in HTML comments is read like the rest.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    head = frontmatter_lines(text)
    parser = _BLOCKS_AND_COMMENTS if in_comments else _BLOCKS
    return parser.parse("\n".join([*[""] * head, *lines[head:]]))


def first_line(token: Token) -> int:
    """Return the number of the first line of a token's block, counted from 1."""
    return token.map[0] + 1 if token.map else 1


class UnreadableKind(Enum):
    """What an entry should have been."""

    ENTRY = "entry"
    DURATION = "duration"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry that has no effect, or not the one that is written.

    `file` is the path within the skill, `line` is counted from 1, and `why` is a sentence without its full stop. It
    quotes nothing but the names that the form itself knows.
    """

    file: str
    line: int
    why: str
    kind: UnreadableKind = UnreadableKind.ENTRY

    def __str__(self) -> str:
        return f"`{self.file}` line {self.line}: {self.why}"


@dataclass(frozen=True, slots=True)
class Entry:
    """An item or a row: what stands before its first colon and after it, or its cells, without marks around them.

    `cells` has at least one; an item without a colon has exactly one.
    """

    line: int
    cells: tuple[str, ...]

    @property
    def key(self) -> str:
        """Return the text before the colon."""
        return self.cells[0]

    @property
    def value(self) -> str:
        """Return the text after the colon; empty if there is none."""
        return self.cells[1] if len(self.cells) > 1 else ""


def entries(tokens: Iterable[Token]) -> Iterator[Entry]:
    """Read the items and rows among blocks of Markdown. Everything else, quotes and heads of tables too, is prose."""
    left = iter(tokens)
    before = ""
    for token in left:
        if token.type in _PASSED_OVER:
            _take_up_to(left, _PASSED_OVER[token.type], token.level)
        elif token.type == "tr_open":
            cells = (one.content for one in _take_up_to(left, "tr_close", token.level) if one.type == "inline")
            yield Entry(first_line(token), tuple(map(bare, cells)))
        elif token.type == "inline":
            yield from _in_paragraph(token, is_item=before == "list_item_open")
        if token.type != "paragraph_open":
            before = token.type


def _take_up_to(tokens: Iterator[Token], end: str, level: int) -> list[Token]:
    """Take the tokens of a block that has been opened."""
    return list(takewhile(lambda token: token.type != end or token.level != level, tokens))


def _in_paragraph(inline: Token, *, is_item: bool) -> Iterator[Entry]:
    """Read the item that a paragraph begins with, if it is one, and rows of what would be a table if it had a head."""
    for number, raw in enumerate(inline.content.split("\n"), first_line(inline)):
        text = raw.strip()
        if is_item and number == first_line(inline):
            yield Entry(number, tuple(bare(half) for half in _COLON.split(text, maxsplit=1)))
        elif text.startswith("|") and not _RULE.fullmatch(text):
            yield Entry(number, tuple(map(bare, text.removeprefix("|").removesuffix("|").split("|"))))


def listed(value: str) -> list[str]:
    """Return the items of a list that is written as one value, without the empty ones."""
    return [item for item in map(bare, _SEPARATORS.split(value)) if item]


def bare(text: str) -> str:
    """Strip spaces, backticks and the marks of bold from around a text."""
    return text.strip(_MARKS)


def word(value: str) -> str:
    """Return a value's first word as it is compared: what follows in brackets or after a space is an aside."""
    return _ASIDE.split(unicodedata.normalize("NFKC", value).strip(_MARKS), maxsplit=1)[0].strip(_MARKS).casefold()


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
