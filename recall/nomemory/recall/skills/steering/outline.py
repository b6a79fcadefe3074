"""Parse Markdown into sections with entries: list items and table rows."""

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

from nomemory.recall.skills.frontmatter import count_frontmatter_lines

_PARSER: Final = MarkdownIt("commonmark").enable("table").disable(["code", "hr", "lheading", "reference"])
"""Markdown parser without indented code, thematic breaks, underlined headings and link definitions."""
_PARSER.core.ruler.enableOnly(["block"])
_COLON: Final = re.compile(r"[:：]")
_SEPARATORS: Final = re.compile(r"[,，、;；/|]")
_ASIDE: Final = re.compile(r"[\s(（,，;；·#。]")
_MARKS: Final = " \t*`"
_BETWEEN_NAMES: Final = re.compile(r"[·・|/:：()（）—–]")
_NUMBER: Final = re.compile(r"[0-9]{1,3}[.)、]?\s+")
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SECTION_LEVEL: Final = 2


def parse_block_tokens(text: str) -> list[Token]:
    """Parse a text into Markdown block tokens, without its frontmatter. Line numbers in `map` start at 0."""
    lines = text.replace("\r\n", "\n").split("\n")
    head = count_frontmatter_lines(text)
    return _PARSER.parse("\n".join([*[""] * head, *lines[head:]]))


def get_first_line_number(token: Token) -> int:
    """Return the line number, starting at 1, at which the block of a token begins."""
    return token.map[0] + 1 if token.map else 1


@dataclass(frozen=True, slots=True)
class InvalidEntry:
    """A skill entry that is invalid or only partly effective.

    `file` is the path within the skill, `line` starts at 1, and `problem` is a sentence without a period. `problem`
    quotes nothing from the skill except names that the skill format defines.
    """

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"`{self.file}` line {self.line}: {self.problem}"


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A key and a value: a list item split at its first colon, or the first two cells of a table row.

    Backticks and bold markers at both ends of the key and of the value are removed.
    """

    file: str
    line: int
    key: str
    value: str = ""

    @property
    def is_setting(self) -> bool:
        """Whether the entry has the form of a setting rather than prose."""
        return bool(self.value and _KEY.fullmatch(self.key))

    def to_invalid_entry(self, problem: str) -> InvalidEntry:
        """Return this entry as an invalid entry, with the reason."""
        return InvalidEntry(self.file, self.line, problem)


def strip_markup(text: str) -> str:
    """Strip spaces, backticks and bold markers from both ends of a text."""
    return text.strip(_MARKS)


def split_items(value: str) -> list[str]:
    """Return the non-empty items of a comma-separated value."""
    return [item for item in map(strip_markup, _SEPARATORS.split(value)) if item]


def extract_first_word(value: str) -> str:
    """Return the first word of a value in normalized form. Text after the first word is treated as a comment."""
    return strip_markup(_ASIDE.split(strip_markup(unicodedata.normalize("NFKC", value)), maxsplit=1)[0]).casefold()


def normalize_key(text: str) -> str:
    """Normalize a key, so that `First tool` and `first_tool` are equal."""
    return "_".join(unicodedata.normalize("NFKC", text).casefold().replace("-", " ").replace("_", " ").split())


class SectionKind(Enum):
    """Sections that the skill format defines."""

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
class SectionPart:
    """The text under a heading.

    `prose` includes paragraphs, list items and table cells. Level 0 means that there is no heading.
    """

    level: int
    title: str
    line: int
    entries: tuple[SkillEntry, ...]
    prose: str


@dataclass(frozen=True, slots=True)
class SkillSection:
    """The text under a first- or second-level heading. `kind` is None if the skill format does not define the heading.

    Text before the first heading is a section without a title. Code blocks, HTML and frontmatter are omitted. Block
    quotes have no entries. Line numbers in `lines` start at 1. The first of the `parts` has the section's own heading.
    """

    kind: SectionKind | None
    lines: range
    parts: tuple[SectionPart, ...]

    @property
    def line(self) -> int:
        """The line number of the section's heading."""
        return self.lines.start

    @property
    def entries(self) -> tuple[SkillEntry, ...]:
        """The entries in all parts of the section."""
        return tuple(entry for part in self.parts for entry in part.entries)

    @property
    def prose(self) -> str:
        """The text of all parts of the section."""
        return "\n".join(part.prose for part in self.parts)


def parse_sections(text: str, file: str = "") -> list[SkillSection]:
    """Split a Markdown text into sections. Every text can be parsed."""
    parts = list(_split_parts(parse_block_tokens(text), file))
    starts = [index for index, part in enumerate(parts) if part.level <= _SECTION_LEVEL]
    parsed_sections = []
    for start, end in pairwise([*starts, len(parts)]):
        first_line_of_section = parts[start].line
        next_line = parts[end].line if end < len(parts) else text.count("\n") + 2
        parsed_sections.append(
            SkillSection(
                _find_section_kind(parts[start].title),
                range(first_line_of_section, max(first_line_of_section + 1, next_line)),
                tuple(parts[start:end]),
            )
        )
    return parsed_sections


def _find_section_kind(title: str) -> SectionKind | None:
    """Return the section kind for a heading. A heading may have two names, as in `默认值 · Defaults`."""
    names = (_NUMBER.sub("", name.strip(" \t*`#_"), count=1) for name in _BETWEEN_NAMES.split(title))
    return next((kind for name in names if (kind := _KINDS.get(" ".join(name.casefold().split())))), None)


def _split_parts(tokens: Sequence[Token], file: str) -> Iterator[SectionPart]:
    headings = [index for index, token in enumerate(tokens) if token.type == "heading_open" and token.level == 0]
    ends = [*headings, len(tokens)]
    leading_tokens = tokens[: ends[0]]
    yield SectionPart(0, "", 1, tuple(_parse_entries(leading_tokens, file)), _join_prose(leading_tokens))
    for start, end in pairwise(ends):
        heading, title, body_tokens = tokens[start], tokens[start + 1].content, tokens[start + 2 : end]
        yield SectionPart(
            int(heading.tag[1]),
            title,
            get_first_line_number(heading),
            tuple(_parse_entries(body_tokens, file)),
            _join_prose(body_tokens),
        )


def _join_prose(tokens: Sequence[Token]) -> str:
    return "\n".join(token.content for token in tokens if token.type == "inline")


def _parse_entries(tokens: Sequence[Token], file: str) -> Iterator[SkillEntry]:
    """Parse the list items and table rows in Markdown blocks as entries. Table headers are not entries."""
    quote_depth = 0
    for index, token in enumerate(tokens):
        if token.type in {"blockquote_open", "blockquote_close"}:
            quote_depth += token.nesting
        elif token.type == "td_open" and not quote_depth and tokens[index - 1].type == "tr_open":
            cells = [strip_markup(item.content) for item in tokens[index : index + 5] if item.type == "inline"]
            yield SkillEntry(file, get_first_line_number(tokens[index - 1]), *cells)
        elif token.type == "inline" and not quote_depth and _is_start_of_item(tokens, index):
            key_and_value = _COLON.split(token.content.split("\n", 1)[0], maxsplit=1)
            yield SkillEntry(file, get_first_line_number(token), *map(strip_markup, key_and_value))


def _is_start_of_item(tokens: Sequence[Token], index: int) -> bool:
    return index > 1 and tokens[index - 1].type == "paragraph_open" and tokens[index - 2].type == "list_item_open"
