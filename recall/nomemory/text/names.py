"""Names of people: what they can be called by, and where a text names them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.text.analysis import Kind, Token, pairs, tokenise
from nomemory.text.stop_words import STOP_WORDS

_FIRST_LETTERS: Final = 3
"""How much of a name is enough: people shorten names at their ends."""

_BEGINNING: Final = "…"
"""Marks a term that is the beginning of a name; no word has it."""

_CAPITALISED: Final = re.compile(r"\b[A-Z][a-z]+\b(?:['’]s)?")
_SUBJECT: Final = re.compile(
    r"\b(?:did|does|do|is|are|was|were|has|have|had|would|will|can|could|should|and|might)\s+([A-Z][a-z]+)\b"
    r"|\b([A-Z][a-z]+)['’]s\b"
)
_NOT_NAMES: Final = frozenset(["I", "The", "My", "Our", "Your", "We", "You", "Mr", "Mrs", "Ms", "Dr"])

_MOST: Final = 256
"""How many terms of a query are looked at."""


def beginning(name: str) -> str:
    """Return the first letters of a name, in lower case."""
    return name[:_FIRST_LETTERS].lower()


def beginnings(words: Iterable[str]) -> frozenset[str]:
    """Return how words begin that are long enough to be told by it."""
    return frozenset(map(beginning, filter(_is_long, words)))


def people(text: str) -> list[str]:
    """Return the names that stand where an English question names a person: “did Ann …”, “Ann’s …”."""
    names = [first or second for first, second in _SUBJECT.findall(text)]
    return _once([name for name in names if name not in _NOT_NAMES])


def without_names(text: str, names: Iterable[str]) -> str:
    """Strip the names of speakers: what they say holds their names rarely, greetings do."""
    for name in names:
        text = re.sub(rf"\b{re.escape(name)}\b(?:['’]s)?", " ", text, flags=re.IGNORECASE)
    return " ".join(text.split())


def without_speakers(text: str, speakers: Sequence[str]) -> str:
    """Strip the names of speakers, shortened ones too. The result is empty if the text holds nothing else."""
    begun = beginnings(speakers)
    bare = _CAPITALISED.sub(lambda word: " " if beginning(word[0]) in begun else word[0], without_names(text, speakers))
    return " ".join(bare.split())


def name_terms(name: str) -> list[str]:
    """Return what a speaker can be named by: words of the name, their first three letters, pairs of its characters."""
    tokens = tokenise(name)
    words = [token.text for token in tokens if token.kind is Kind.WORD]
    return _once([*words, *map(_marked_beginning, filter(_is_long, words)), *_pairs(tokens)])


def naming_terms(text: str) -> list[str]:
    """Return what in a query may name a speaker: its words, of capitalised ones also how they begin, its pairs."""
    tokens = tokenise(text)
    words = [token for token in tokens if token.kind is Kind.WORD and token.text not in STOP_WORDS]
    capitalised = [word.text for word in words if text[word.start].isupper() and _is_long(word.text)]
    return _once([*(word.text for word in words), *map(_marked_beginning, capitalised), *_pairs(tokens)])[:_MOST]


def _pairs(tokens: Sequence[Token]) -> list[str]:
    return [pair.text for pair in pairs(tokens)]


def _is_long(word: str) -> bool:
    return len(word) >= _FIRST_LETTERS


def _marked_beginning(word: str) -> str:
    return word[:_FIRST_LETTERS] + _BEGINNING


def _once(terms: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(terms))
