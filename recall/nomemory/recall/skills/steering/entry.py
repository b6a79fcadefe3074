"""Entries of a section: items of lists and rows of tables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from markdown_it.token import Token

from nomemory.recall.skills.markdown import first_line

_PASSED_OVER: Final = {"blockquote_open": "blockquote_close", "thead_open": "thead_close"}
_COLON: Final = re.compile(r"[:：]")
_RULE: Final = re.compile(r"[\s|:-]+")
_SEPARATORS: Final = re.compile(r"[,，、;；/|]")
_ASIDE: Final = re.compile(r"[\s(（,，;；·#。]")
_MARKS: Final = " \t*`"


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
