"""Text analysis shared by indexing, querying and highlighting.

A token is a character of a script without spaces between words, a word of any other script, or a symbol. The analysis
returns all tokens, for phrase queries, and the terms, for ranking. Terms are bigrams of adjacent characters and stems
of words that are not stop words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from operator import add
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # the package has no type information

from nomemory.text.normalization import COMBINING, INVISIBLE, normalize, remove_invisible_characters
from nomemory.text.stems import stem_words
from nomemory.text.stop_words import CONTRACTION_HALVES, STOP_WORDS

MAX_WORD_CHARS = 64
"""Maximum number of characters in a word. Longer words are split, because some search engines reject them."""

_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\u30FC"  # The long vowel mark of kana belongs to no script.
)
_TRAILING = rf"[{COMBINING}\u3099\u309A{INVISIBLE}]"
_SYLLABLE = r"[\u1100-\u115F][\u1160-\u11A7][\u11A8-\u11FF]?"
_TOKEN = regex.compile(
    rf"((?:{_SYLLABLE}|[{_UNSPACED}--[{INVISIBLE}]]){_TRAILING}*+)"
    rf"|((?:[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}{COMBINING}{INVISIBLE}]]{_TRAILING}*+){{1,{MAX_WORD_CHARS}}})"
    rf"|([^\s{COMBINING}{INVISIBLE}]{_TRAILING}*+)",
    regex.V1,
)
_RUN = regex.compile(
    rf"([{_UNSPACED}--[{INVISIBLE}]]+)"
    rf"|([[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}{COMBINING}{INVISIBLE}]]{{1,{MAX_WORD_CHARS}}})"
    rf"|([^\s{COMBINING}{INVISIBLE}])",
    regex.V1,
)
"""Faster version of `_TOKEN` for texts that `_HAS_TRAILING` does not match."""
_HAS_TRAILING = regex.compile(rf"{_TRAILING}|{_SYLLABLE}", regex.V1)


class TokenKind(IntEnum):
    """Kinds of tokens. Each value is the number of the regular-expression group that matches tokens of this kind."""

    CHARACTER = 1
    WORD = 2
    SYMBOL = 3


class Token(NamedTuple):
    """A normalized token with its half-open range of code points in the original text."""

    text: str
    start: int
    end: int
    kind: TokenKind


class Term(NamedTuple):
    """A ranking term with its range in the original text."""

    text: str
    start: int
    end: int


class AnalyzedText(NamedTuple):
    """The tokens and terms of a text, without offsets."""

    tokens: list[str]
    terms: list[str]


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens, in linear time. The tokens contain no whitespace and no invisible characters."""
    normal = normalize(text)
    spell = _compose_characters if _HAS_TRAILING.search(normal) else str
    return [
        Token(spell(match[0]), match.start(), match.end(), _KIND_BY_GROUP[match.lastindex])
        for match in _TOKEN.finditer(normal)
    ]


def extract_ranking_terms(tokens: Sequence[Token]) -> Iterator[Term]:
    """Return the ranking terms of tokens: first the character bigrams, then the stems."""
    yield from extract_character_bigrams(tokens)
    words = [token for token in tokens if token.kind is TokenKind.WORD and token.text not in STOP_WORDS]
    if not CONTRACTION_HALVES.isdisjoint(word.text for word in words):
        halves = set(_find_contraction_halves(tokens))
        words = [word for word in words if word not in halves]
    for word, text in zip(words, stem_words([word.text for word in words]), strict=True):
        yield Term(text, word.start, word.end)


def extract_character_bigrams(tokens: Sequence[Token]) -> Iterator[Term]:
    """Return the bigrams of adjacent character tokens."""
    for left, right in pairwise(tokens):
        if left.end == right.start and left.kind is right.kind is TokenKind.CHARACTER:
            yield Term(left.text + right.text, left.start, right.end)


def analyze_text(text: str) -> AnalyzedText:
    """Return the tokens and ranking terms of a text.

    A fast path halves the time for text without combining characters.
    """
    normal = normalize(text)
    analyzed = _analyze_plain_text(normal) if normal.isascii() or not _HAS_TRAILING.search(normal) else None
    if analyzed is not None:
        return analyzed
    tokens = tokenize(text)
    return AnalyzedText([token.text for token in tokens], [term.text for term in extract_ranking_terms(tokens)])


def _analyze_plain_text(normal: str) -> AnalyzedText | None:
    """Analyze a normalized text without combining characters; return None if the text may contain contractions."""
    tokens: list[str] = []
    bigrams: list[str] = []
    words: list[str] = []
    for run, word, symbol in _RUN.findall(normal):
        if word:
            tokens.append(word)
            words.append(word)
        elif run:
            tokens.extend(run)
            bigrams.extend(map(add, run, run[1:]))
        else:
            tokens.append(symbol)
    if not CONTRACTION_HALVES.isdisjoint(words):
        return None
    return AnalyzedText(tokens, bigrams + stem_words([word for word in words if word not in STOP_WORDS]))


def _find_contraction_halves(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the first half of each contraction, such as "won" in "won't", which would be stemmed to "win"."""
    for word, apostrophe, clitic in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (
            word.text in CONTRACTION_HALVES
            and apostrophe.text == "'"
            and clitic.text == "t"
            and word.end + 1 == clitic.start
        ):
            yield word


def _compose_characters(spelling: str) -> str:
    return normalize(remove_invisible_characters(spelling))


_KIND_BY_GROUP: dict[int | None, TokenKind] = {kind.value: kind for kind in TokenKind}
