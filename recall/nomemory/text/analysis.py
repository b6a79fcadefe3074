"""Text analysis shared by indexing, querying and highlighting.

A token is a character of a script without spaces between words, a word of any other script, or a symbol. The analysis
produces two streams: all tokens, for phrase queries; and terms, for ranking. Terms are bigrams of adjacent characters
and stems of words that are not stop words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from operator import add
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.text.normalization import COMBINING, INVISIBLE, normalize, visible
from nomemory.text.stems import stems
from nomemory.text.stop_words import HALVES, STOP_WORDS

MAX_WORD_CHARS = 64
"""Longer words are split because some engines reject them."""

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
"""Fast version of `_TOKEN` for texts without trailing characters."""
_HAS_TRAILING = regex.compile(rf"{_TRAILING}|{_SYLLABLE}", regex.V1)


class Kind(IntEnum):
    """The kind of a token. Each value is the number of a group in the pattern."""

    CHARACTER = 1
    WORD = 2
    SYMBOL = 3


class Token(NamedTuple):
    """A normalized token with its half-open range of code points in the original text."""

    text: str
    start: int
    end: int
    kind: Kind


class Term(NamedTuple):
    """A ranking term with its range in the original text."""

    text: str
    start: int
    end: int


class Streams(NamedTuple):
    """The tokens and terms of a text, without offsets."""

    tokens: list[str]
    terms: list[str]


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens, in linear time. Whitespace and invisible characters are skipped."""
    normal = normalize(text)
    spell = _composed if _HAS_TRAILING.search(normal) else str
    return [
        Token(spell(match[0]), match.start(), match.end(), _KINDS[match.lastindex]) for match in _TOKEN.finditer(normal)
    ]


def terms(tokens: Sequence[Token]) -> Iterator[Term]:
    """Return the ranking terms: first the character bigrams, then the stems."""
    yield from pairs(tokens)
    words = [token for token in tokens if token.kind is Kind.WORD and token.text not in STOP_WORDS]
    if not HALVES.isdisjoint(word.text for word in words):
        halves = set(_halves(tokens))
        words = [word for word in words if word not in halves]
    for word, text in zip(words, stems([word.text for word in words]), strict=True):
        yield Term(text, word.start, word.end)


def pairs(tokens: Sequence[Token]) -> Iterator[Term]:
    """Return the bigrams of adjacent characters."""
    for left, right in pairwise(tokens):
        if left.end == right.start and left.kind is right.kind is Kind.CHARACTER:
            yield Term(left.text + right.text, left.start, right.end)


def streams(text: str) -> Streams:
    """Return the texts of `tokenize` and `terms`. Plain texts take a fast path that halves the time."""
    normal = normalize(text)
    plain = _plain(normal) if normal.isascii() or not _HAS_TRAILING.search(normal) else None
    if plain is not None:
        return plain
    tokens = tokenize(text)
    return Streams([token.text for token in tokens], [term.text for term in terms(tokens)])


def _plain(normal: str) -> Streams | None:
    """Return the streams of a text without trailing characters; None if the text may hold contractions."""
    tokens: list[str] = []
    pairs: list[str] = []
    words: list[str] = []
    for run, word, symbol in _RUN.findall(normal):
        if word:
            tokens.append(word)
            words.append(word)
        elif run:
            tokens.extend(run)
            pairs.extend(map(add, run, run[1:]))
        else:
            tokens.append(symbol)
    if not HALVES.isdisjoint(words):
        return None
    return Streams(tokens, pairs + stems([word for word in words if word not in STOP_WORDS]))


def _halves(tokens: Sequence[Token]) -> Iterator[Token]:
    """Drop the first halves of contractions from ranking: "won't" is not a form of "win"."""
    for word, mark, clitic in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if word.text in HALVES and mark.text == "'" and clitic.text == "t" and word.end + 1 == clitic.start:
            yield word


def _composed(spelling: str) -> str:
    return normalize(visible(spelling))


_KINDS: dict[int | None, Kind] = {kind.value: kind for kind in Kind}
