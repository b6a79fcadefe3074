"""Find and remove people's names in a text, and derive the search terms of a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.text.analysis import Token, TokenKind, extract_character_bigrams, tokenize
from nomemory.text.stop_words import STOP_WORDS

_PREFIX_CHARS: Final = 3
"""Number of characters in a name prefix. Names are usually shortened at the end."""

_PREFIX_SUFFIX: Final = "…"
"""Suffix of name-prefix terms. No other term contains this character."""

_CAPITALIZED: Final = re.compile(r"\b[A-Z][a-z]+\b(?:['’]s)?")
_SUBJECT: Final = re.compile(
    r"\b(?:did|does|do|is|are|was|were|has|have|had|would|will|can|could|should|and|might)\s+([A-Z][a-z]+)\b"
    r"|\b([A-Z][a-z]+)['’]s\b"
)
_NOT_NAMES: Final = frozenset(["I", "The", "My", "Our", "Your", "We", "You", "Mr", "Mrs", "Ms", "Dr"])

_MAX_NAMING_TERMS: Final = 256
"""Maximum number of query terms that are checked for names."""


def get_name_prefix(name: str) -> str:
    """Return the first three characters of a name in lower case. Short forms of the name have the same prefix."""
    return name[:_PREFIX_CHARS].lower()


def collect_name_prefixes(words: Iterable[str]) -> frozenset[str]:
    """Return the name prefixes of the words that have at least three characters."""
    return frozenset(map(get_name_prefix, filter(_exceeds_prefix_length, words)))


def find_named_people(text: str) -> list[str]:
    """Return the names of people in an English question, such as Ann in "did Ann …" and "Ann’s …"."""
    names = [first or second for first, second in _SUBJECT.findall(text)]
    return _remove_duplicates([name for name in names if name not in _NOT_NAMES])


def remove_names(text: str, names: Iterable[str]) -> str:
    """Remove names from a query, because greetings contain names more often than answers do."""
    for name in names:
        text = re.sub(rf"\b{re.escape(name)}\b(?:['’]s)?", " ", text, flags=re.IGNORECASE)
    return " ".join(text.split())


def remove_speaker_names(text: str, speakers: Sequence[str]) -> str:
    """Remove speakers' full and shortened names from a query. The remaining query may be empty."""
    speaker_prefixes = collect_name_prefixes(speakers)
    text_without_names = _CAPITALIZED.sub(
        lambda word: " " if get_name_prefix(word[0]) in speaker_prefixes else word[0], remove_names(text, speakers)
    )
    return " ".join(text_without_names.split())


def extract_name_terms(name: str) -> list[str]:
    """Return the terms that may refer to a speaker: words of the name, their prefixes, and character bigrams."""
    tokens = tokenize(name)
    words = [token.text for token in tokens if token.kind is TokenKind.WORD]
    return _remove_duplicates(
        [*words, *map(_build_prefix_term, filter(_exceeds_prefix_length, words)), *_extract_bigrams(tokens)]
    )


def extract_candidate_name_terms(text: str) -> list[str]:
    """Return the query terms that may name a speaker: words, prefixes of capitalized words, and bigrams."""
    tokens = tokenize(text)
    words = [token for token in tokens if token.kind is TokenKind.WORD and token.text not in STOP_WORDS]
    capitalized = [word.text for word in words if text[word.start].isupper() and _exceeds_prefix_length(word.text)]
    terms = [*(word.text for word in words), *map(_build_prefix_term, capitalized), *_extract_bigrams(tokens)]
    return _remove_duplicates(terms)[:_MAX_NAMING_TERMS]


def _extract_bigrams(tokens: Sequence[Token]) -> list[str]:
    return [pair.text for pair in extract_character_bigrams(tokens)]


def _exceeds_prefix_length(word: str) -> bool:
    return len(word) >= _PREFIX_CHARS


def _build_prefix_term(word: str) -> str:
    return word[:_PREFIX_CHARS] + _PREFIX_SUFFIX


def _remove_duplicates(terms: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(terms))
