"""A text of a skill as the rules look at it: its lines, and the fenced blocks among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from markdown_it.token import Token

from nomemory.recall.skills.steering.outline import block_tokens

_LANGUAGE: Final = re.compile(r"[\w+-]*")
_JSON: Final = frozenset({"json", "jsonc", "json5", "jsonl", "ndjson"})
_SPAN: Final = re.compile(r"(?<!`)(`{1,8})(?!`)(.+?)(?<!`)\1(?!`)")


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
    fences = [
        (range(*token.map), token)
        for token in block_tokens(text, in_comments=True)
        if token.type == "fence" and token.map is not None
    ]
    fenced = {number for place, _ in fences for number in place}
    lines = enumerate(text.replace("\r\n", "\n").split("\n"))
    return Document(
        file,
        tuple(Line(number + 1, line, in_fence=number in fenced) for number, line in lines),
        tuple(_block(place, fence) for place, fence in fences),
    )


def _block(place: range, fence: Token) -> Block:
    return Block(place.start + 2, _language(fence.info), fence.content.removesuffix("\n"))


def _language(info: str) -> str:
    named = _LANGUAGE.match(info.strip())
    return named[0].lower() if named else ""


def code_spans(text: str) -> Iterator[re.Match[str]]:
    """Find what stands between backticks in a line; group 2 of each match is the code."""
    return _SPAN.finditer(text)
