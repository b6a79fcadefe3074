"""The terms of text in a query that is no operator."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from nomemory.server.search.grammar.tree import Leaf, Node, Stream
from nomemory.text.analysis import Kind, Token, terms, tokenise
from nomemory.text.stems import stems
from nomemory.text.stop_words import CLITICS, CONTRACTED, STOP_WORDS

_OF_WORD = frozenset("#@%&*/\\_")
"""Punctuation that belongs to the word it stands at. The rest belongs to the sentence, and is dropped at the ends."""


_BREAKS = frozenset("，、。；？！…·｡､")
"""Punctuation that parts words even without a space. (Not the full-width colon and stop: they stand in 5：30.)"""


@dataclass(frozen=True, slots=True)
class TermSets:
    """The terms of text that only ranks. The `weak` ones, such as stop words, count where there is no strong one."""

    strong: tuple[Node, ...] = ()
    weak: tuple[Node, ...] = ()


def combined(term_sets: Iterable[TermSets]) -> TermSets:
    """Return the terms of several texts side by side."""
    sets = list(term_sets)
    return TermSets(
        tuple(node for terms_of_text in sets for node in terms_of_text.strong),
        tuple(node for terms_of_text in sets for node in terms_of_text.weak),
    )


def phrase(text: str) -> Leaf:
    """Read a text literally: every token of it, in order. The text must not be blank."""
    return _literal(tokenise(text))


def exact(word: str) -> Leaf:
    """Read a bare word that decides about a match (under AND and NOT): a word by its stem, all else literally."""
    tokens = _trimmed(tokenise(word))
    if len(tokens) == 1 and _ranks(tokens[0]):
        return _stem(tokens[0])
    return _literal(tokens)


def ranked(word: str) -> TermSets:
    """Read a bare word that ranks: runs of unspaced script by their pairs, the knots between them as they are."""
    return combined(_pairs(run) if kind is Kind.CHARACTER else _knot(run) for kind, run in _runs(tokenise(word), word))


def _runs(tokens: Sequence[Token], word: str) -> Iterator[tuple[Kind, list[Token]]]:
    """Part a word into runs of characters, knots of words and symbols, and the punctuation that breaks them."""

    def place(token: Token) -> tuple[Kind, bool]:
        kind = Kind.CHARACTER if token.kind is Kind.CHARACTER else Kind.WORD
        return kind, word[token.start] in _BREAKS

    for (kind, _), run in groupby(tokens, place):
        yield kind, list(run)


def _pairs(run: Sequence[Token]) -> TermSets:
    if len(run) == 1:
        return TermSets(strong=(_literal(run),))
    return TermSets(strong=tuple(Leaf(Stream.TERMS, (term.text,)) for term in terms(run)))


def _knot(knot: Sequence[Token]) -> TermSets:
    """Read words and symbols without a space between them: a lone word, a possessive, C++, an address, an emoji."""
    core = _trimmed(knot)
    if _is_weak(core):
        return TermSets(weak=(_literal(core),))
    if _ranks(core[0]) and (len(core) == 1 or _is_possessive(core)):
        return TermSets(strong=(_stem(core[0]),))
    return TermSets(strong=(_literal(core),))


def _trimmed(tokens: Sequence[Token]) -> Sequence[Token]:
    """Drop the sentence's punctuation at both ends, unless only punctuation would be left."""
    if all(map(_is_punctuation, tokens)):
        return tokens
    kept = [place for place, token in enumerate(tokens) if token.text in _OF_WORD or not _is_punctuation(token)]
    return tokens[kept[0] : kept[-1] + 1]


def _ranks(token: Token) -> bool:
    return token.kind is Kind.WORD and token.text not in STOP_WORDS


def _is_weak(core: Sequence[Token]) -> bool:
    """Return whether a knot is nothing but stop words and punctuation, or a contraction of them (don't, I'm)."""
    return _is_contraction(core) or all(token.text in STOP_WORDS or _is_punctuation(token) for token in core)


def _is_punctuation(token: Token) -> bool:
    return token.text == "~" or unicodedata.category(token.text[0]).startswith("P")


def _is_contraction(core: Sequence[Token]) -> bool:
    head, *tail = (token.text for token in core)
    return head in CONTRACTED and set(tail[::2]) == {"'"} and CLITICS.issuperset(tail[1::2])


def _is_possessive(core: Sequence[Token]) -> bool:
    return [token.text for token in core[1:]] == ["'", "s"]


def _stem(token: Token) -> Leaf:
    return Leaf(Stream.TERMS, tuple(stems([token.text])))


def _literal(tokens: Sequence[Token]) -> Leaf:
    return Leaf(Stream.CHARS, tuple(token.text for token in tokens))
