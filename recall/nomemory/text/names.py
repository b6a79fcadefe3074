"""Who speaks, as far as words tell: the terms of a speaker's name, and those of a query that may be one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from nomemory.text.analysis import Kind, Token, tokenise
from nomemory.text.stop_words import STOP_WORDS

_FIRST_LETTERS: Final = 3
"""How much of a name is enough: people shorten names at their ends."""

_BEGINNING: Final = "…"
"""Marks a term that is the beginning of a name; no word has it."""

_MOST: Final = 256
"""Terms of a query that are looked at."""


def name_terms(name: str) -> list[str]:
    """Return what a speaker can be named by: words of the name, their first three letters, pairs of its characters."""
    tokens = tokenise(name)
    words = [token.text for token in tokens if token.kind is Kind.WORD]
    return _once([*words, *map(_beginning, filter(_is_long, words)), *_pairs(tokens)])


def naming_terms(text: str) -> list[str]:
    """Return what in a query may name a speaker: its words, of capitalised ones also how they begin, its pairs."""
    tokens = tokenise(text)
    words = [token for token in tokens if token.kind is Kind.WORD and token.text not in STOP_WORDS]
    capitalised = [word.text for word in words if text[word.start].isupper() and _is_long(word.text)]
    return _once([*(word.text for word in words), *map(_beginning, capitalised), *_pairs(tokens)])[:_MOST]


def _pairs(tokens: Sequence[Token]) -> Iterator[str]:
    for left, right in pairwise(tokens):
        if left.end == right.start and left.kind is right.kind is Kind.CHARACTER:
            yield left.text + right.text


def _is_long(word: str) -> bool:
    return len(word) >= _FIRST_LETTERS


def _beginning(word: str) -> str:
    return word[:_FIRST_LETTERS] + _BEGINNING


def _once(terms: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(terms))
