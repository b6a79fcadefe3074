"""Extract the terms to search for from the text of a query."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from nomemory.server.search.grammar.tree import Leaf, Node, TokenField
from nomemory.text.analysis import Token, TokenKind, extract_ranking_terms, tokenize
from nomemory.text.stems import stem_words
from nomemory.text.stop_words import CLITICS, CONTRACTION_WORDS, STOP_WORDS

_WORD_PUNCTUATION = frozenset("#@%&*/\\_")
"""Punctuation that is part of an adjacent word. Other punctuation is removed at the ends of a word."""


_BREAKS = frozenset("，、。；？！…·｡､")
"""Punctuation that separates words even without a space, except the full-width colon and period, as in 5：30."""


@dataclass(frozen=True, slots=True)
class TermSets:
    """The alternative terms for adjacent words of a query. A message matches if it contains at least one of the terms.

    Weak terms, such as stop words, are used only if the query has no strong terms.
    """

    strong_terms: tuple[Node, ...] = ()
    weak_terms: tuple[Node, ...] = ()


def combine_term_sets(term_sets: Iterable[TermSets]) -> TermSets:
    """Combine the term sets of several texts."""
    sets = list(term_sets)
    return TermSets(
        tuple(node for terms_of_text in sets for node in terms_of_text.strong_terms),
        tuple(node for terms_of_text in sets for node in terms_of_text.weak_terms),
    )


def build_phrase_leaf(text: str) -> Leaf:
    """Return a phrase with all tokens of a text, in order. The text must not be blank."""
    return _build_literal_leaf(tokenize(text))


def build_exact_leaf(word: str) -> Leaf:
    """Return the term or phrase for an operand of AND or NOT: the stem of the word, or its literal tokens."""
    tokens = _trim_punctuation(tokenize(word))
    if len(tokens) == 1 and _is_content_word(tokens[0]):
        return _build_stem_leaf(tokens[0])
    return _build_literal_leaf(tokens)


def extract_word_ranking_terms(word: str) -> TermSets:
    """Return the ranking terms of a word: character pairs in unspaced scripts, otherwise stems and literal tokens."""
    return combine_term_sets(
        _pair_terms(run) if kind is TokenKind.CHARACTER else _extract_word_terms(run)
        for kind, run in _split_runs(tokenize(word), word)
    )


def _split_runs(tokens: Sequence[Token], word: str) -> Iterator[tuple[TokenKind, list[Token]]]:
    """Split a word into runs of characters, runs of words and symbols, and punctuation between the runs."""

    def get_group_key(token: Token) -> tuple[TokenKind, bool]:
        kind = TokenKind.CHARACTER if token.kind is TokenKind.CHARACTER else TokenKind.WORD
        return kind, word[token.start] in _BREAKS

    for (kind, _), run in groupby(tokens, get_group_key):
        yield kind, list(run)


def _pair_terms(run: Sequence[Token]) -> TermSets:
    if len(run) == 1:
        return TermSets(strong_terms=(_build_literal_leaf(run),))
    return TermSets(strong_terms=tuple(Leaf(TokenField.TERMS, (term.text,)) for term in extract_ranking_terms(run)))


def _extract_word_terms(run: Sequence[Token]) -> TermSets:
    """Return the terms of a run of tokens without spaces, such as a word, a possessive, C++, an address or an emoji."""
    core = _trim_punctuation(run)
    if _is_weak(core):
        return TermSets(weak_terms=(_build_literal_leaf(core),))
    if _is_content_word(core[0]) and (len(core) == 1 or _is_possessive(core)):
        return TermSets(strong_terms=(_build_stem_leaf(core[0]),))
    return TermSets(strong_terms=(_build_literal_leaf(core),))


def _trim_punctuation(tokens: Sequence[Token]) -> Sequence[Token]:
    """Remove punctuation at both ends of a word, unless the word consists of punctuation only."""
    if all(map(_is_punctuation, tokens)):
        return tokens
    indexes = [
        index for index, token in enumerate(tokens) if token.text in _WORD_PUNCTUATION or not _is_punctuation(token)
    ]
    return tokens[indexes[0] : indexes[-1] + 1]


def _is_content_word(token: Token) -> bool:
    return token.kind is TokenKind.WORD and token.text not in STOP_WORDS


def _is_weak(core: Sequence[Token]) -> bool:
    """Return whether a word consists of stop words and punctuation, or is a contraction (don't, I'm)."""
    return _is_contraction(core) or all(token.text in STOP_WORDS or _is_punctuation(token) for token in core)


def _is_punctuation(token: Token) -> bool:
    return token.text == "~" or unicodedata.category(token.text[0]).startswith("P")


def _is_contraction(core: Sequence[Token]) -> bool:
    head, *tail = (token.text for token in core)
    return head in CONTRACTION_WORDS and set(tail[::2]) == {"'"} and CLITICS.issuperset(tail[1::2])


def _is_possessive(core: Sequence[Token]) -> bool:
    return [token.text for token in core[1:]] == ["'", "s"]


def _build_stem_leaf(token: Token) -> Leaf:
    return Leaf(TokenField.TERMS, tuple(stem_words([token.text])))


def _build_literal_leaf(tokens: Sequence[Token]) -> Leaf:
    return Leaf(TokenField.CHARS, tuple(token.text for token in tokens))
