"""The query parser: text becomes marks, every operator gets its operands, and marks become a tree."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple


class MarkKind(Enum):
    """What a piece of a query is."""

    WORD = auto()
    PHRASE = auto()
    OPEN = auto()
    CLOSE = auto()
    AND = auto()
    OR = auto()
    NOT = auto()


class Mark(NamedTuple):
    """A piece of a query; `text` is what it is read as if it is text (of a phrase: what is between the quotes)."""

    kind: MarkKind
    text: str


class _Delimiter(NamedTuple):
    """A phrase or a parenthesis, which parts the bare text around it."""

    start: int
    end: int
    mark: Mark


_OPERATORS = {"AND": MarkKind.AND, "OR": MarkKind.OR, "NOT": MarkKind.NOT}
_BEGINS_OPERAND = frozenset([MarkKind.WORD, MarkKind.PHRASE, MarkKind.OPEN, MarkKind.NOT])
_ENDS_OPERAND = frozenset([MarkKind.WORD, MarkKind.PHRASE, MarkKind.CLOSE])

_QUOTED = re.compile(r'["＂“”„‟]([^"＂“”„‟]*)["＂“”„‟]|「([^「」]*)」|『([^『』]*)』')
"""Any double quote closes any other. A corner bracket that another one follows is text: so nothing is read twice."""

_OPENING, _CLOSING = "(（", ")）"
_CHUNK = re.compile(r"\S+")
_MINUSES = "-－"


def scan(text: str) -> list[Mark]:
    """Split a query into marks: balanced, and each operator with its operands. Nothing visible is lost."""
    phrases = list(_phrases(text))
    delimiters = sorted([*phrases, *_groups(text, phrases)])
    return _operable(list(_marks(text, delimiters)))


def depth(marks: Sequence[Mark]) -> int:
    """Return how deep the parentheses nest."""
    deepest = level = 0
    for mark in marks:
        level += (mark.kind is MarkKind.OPEN) - (mark.kind is MarkKind.CLOSE)
        deepest = max(deepest, level)
    return deepest


def _phrases(text: str) -> Iterator[_Delimiter]:
    for match in _QUOTED.finditer(text):
        quoted = match[match.lastindex or 0]
        if quoted.strip():
            yield _Delimiter(match.start(), match.end(), Mark(MarkKind.PHRASE, quoted))


def _groups(text: str, phrases: Sequence[_Delimiter]) -> Iterator[_Delimiter]:
    """Find the pairs of parentheses outside phrases that have something between them."""
    covered = list(text)
    for phrase in phrases:
        covered[phrase.start : phrase.end] = "x" * (phrase.end - phrase.start)
    waiting: list[int] = []
    filled_until = -1
    for place, character in enumerate(covered):
        if character in _OPENING:
            waiting.append(place)
        elif character in _CLOSING:
            opened = waiting.pop() if waiting else place
            if opened < filled_until:
                yield _Delimiter(opened, opened + 1, Mark(MarkKind.OPEN, text[opened]))
                yield _Delimiter(place, place + 1, Mark(MarkKind.CLOSE, character))
        elif not character.isspace():
            filled_until = place


def _marks(text: str, delimiters: Sequence[_Delimiter]) -> Iterator[Mark]:
    start = 0
    for delimiter in delimiters:
        opens = delimiter.mark.kind is not MarkKind.CLOSE
        yield from _bare(text[start : delimiter.start], touches_operand=opens)
        yield delimiter.mark
        start = delimiter.end
    yield from _bare(text[start:], touches_operand=False)


def _bare(text: str, *, touches_operand: bool) -> Iterator[Mark]:
    """Read text without phrases and parentheses; one of them may follow it without a space."""
    for chunk in _CHUNK.finditer(text):
        word = chunk[0]
        operator = _OPERATORS.get(unicodedata.normalize("NFKC", word))
        if operator:
            yield Mark(operator, word)
        elif _negates(word, touches_operand=touches_operand and chunk.end() == len(text)):
            yield Mark(MarkKind.NOT, word[0])
            if len(word) > 1:
                yield Mark(MarkKind.WORD, word[1:])
        else:
            yield Mark(MarkKind.WORD, word)


def _negates(word: str, *, touches_operand: bool) -> bool:
    """Return whether a word begins with the minus that negates: right before a phrase, a group or a word with content.

    `--help`, `-_-` and a minus on its own are text.
    """
    if word[0] not in _MINUSES:
        return False
    rest = word[1:]
    if not rest:
        return touches_operand
    return rest[0] not in _MINUSES and not all(unicodedata.category(character).startswith("P") for character in rest)


def _operable(marks: list[Mark]) -> list[Mark]:
    """Turn the operators that have no operand into words: first the binary ones, then NOT from the right."""
    for place, mark in enumerate(marks):
        if mark.kind in (MarkKind.AND, MarkKind.OR) and not (
            _kind(marks, place - 1) in _ENDS_OPERAND and _kind(marks, place + 1) in _BEGINS_OPERAND
        ):
            marks[place] = Mark(MarkKind.WORD, mark.text)
    for place, mark in reversed(list(enumerate(marks))):
        if mark.kind is MarkKind.NOT and _kind(marks, place + 1) not in _BEGINS_OPERAND:
            marks[place] = Mark(MarkKind.WORD, mark.text)
    return marks


def _kind(marks: Sequence[Mark], place: int) -> MarkKind | None:
    return marks[place].kind if 0 <= place < len(marks) else None


class Operand(NamedTuple):
    """A word, a phrase or what stands between parentheses; it may be negated."""

    part: Mark | Clause
    negated: bool


Chain = list[Operand]
"""Operands joined by AND."""

Clause = list[list[Chain]]
"""Groups joined by OR; in a group, chains stand side by side."""


def arrange(marks: Iterator[Mark]) -> Clause:
    """Build the tree of marks in which every operator has its operands. Recursion goes as deep as the parentheses."""
    clause: Clause = [[]]
    joins = negated = False
    for mark in marks:
        match mark.kind:
            case MarkKind.CLOSE:
                break
            case MarkKind.AND:
                joins = True
            case MarkKind.OR:
                clause.append([])
            case MarkKind.NOT:
                negated = not negated
            case _:
                if not joins:
                    clause[-1].append([])
                part = arrange(marks) if mark.kind is MarkKind.OPEN else mark
                clause[-1][-1].append(Operand(part, negated))
                joins = negated = False
    return clause
