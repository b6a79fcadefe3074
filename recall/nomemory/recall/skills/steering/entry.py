"""Entries of a section: items of lists and rows of tables, in whatever of the two ways they are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from nomemory.recall.skills.steering.outline import Line

_ITEM: Final = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,3}[.)])[ \t]+(\S.*)")
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
        """Return what it is about."""
        return self.cells[0]

    @property
    def value(self) -> str:
        """Return what it says of it; empty: nothing."""
        return self.cells[1] if len(self.cells) > 1 else ""


def entries(lines: Iterable[Line]) -> Iterator[Entry]:
    """Read the items and rows among lines. Everything else is prose."""
    row: Entry | None = None
    for line in lines:
        if line.text.lstrip().startswith("|"):
            if _RULE.fullmatch(line.text):
                row = None  # what stands above a table's rule is its head
                continue
            before, row = row, Entry(line.number, _cells(line.text))
        else:
            before, row = row, None
        if before:
            yield before
        if item := _ITEM.fullmatch(line.text):
            yield Entry(line.number, tuple(bare(half) for half in _COLON.split(item[1], maxsplit=1)))
    if row:
        yield row


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


def _cells(row: str) -> tuple[str, ...]:
    return tuple(bare(cell) for cell in row.strip().removeprefix("|").removesuffix("|").split("|"))
