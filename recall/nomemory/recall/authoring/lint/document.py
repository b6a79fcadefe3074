"""A text of a skill as the rules look at it: its lines, and the fenced blocks among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*([\w+-]*)")
_JSON: Final = frozenset({"json", "jsonc", "json5", "jsonl", "ndjson"})


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text; `number` counts from 1. `in_fence` tells that it stands in a fenced block, or fences one."""

    number: int
    text: str
    in_fence: bool


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences. `first` is the number of its first line, `language` what the fence says."""

    first: int
    language: str
    text: str

    @property
    def may_be_json(self) -> bool:
        """Return whether it says that it is JSON, or says nothing and looks like it."""
        return self.language in _JSON or (not self.language and self.text.lstrip()[:1] in ("{", "["))


@dataclass(frozen=True, slots=True)
class Document:
    """A text of a skill. `file` is its path within the skill's folder."""

    file: str
    lines: tuple[Line, ...]
    blocks: tuple[Block, ...]


def read_document(file: str, text: str) -> Document:
    """Part a text into lines and blocks. A block that is not closed goes on to the end."""
    lines, blocks = list[Line](), list[Block]()
    fence, language, inside = "", "", list[Line]()
    for number, one in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        mark = _FENCE.match(one)
        line = Line(number, one, in_fence=bool(fence or mark))
        lines.append(line)
        if fence and mark and _closes(mark, fence):
            blocks.append(_block(inside, language, number))
            fence = ""
        elif fence:
            inside.append(line)
        elif mark:
            fence, language, inside = mark[1], mark[2].lower(), []
    if fence:
        blocks.append(_block(inside, language, len(lines)))
    return Document(file, tuple(lines), tuple(blocks))


def _closes(mark: re.Match[str], fence: str) -> bool:
    return mark[1].startswith(fence) and not mark[2]


def _block(inside: list[Line], language: str, end: int) -> Block:
    first = inside[0].number if inside else end
    return Block(first, language, "\n".join(line.text for line in inside))


def code_spans(text: str) -> Iterator[re.Match[str]]:
    """Find what stands between backticks in a line; group 2 of each match is the code."""
    return _SPAN.finditer(text)


_SPAN: Final = re.compile(r"(?<!`)(`{1,8})(?!`)(.+?)(?<!`)\1(?!`)")
