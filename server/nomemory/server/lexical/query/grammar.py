"""The query grammar: text in, a tree out. docs/query-grammar.md describes it for people.

How text in a query that is no operator becomes leaves.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from nomemory.server.faults import Fault, Reason, Violation, bad_field
from nomemory.server.lexical.query.parser import Chain, Clause, Mark, MarkKind, Operand, arrange, depth, scan
from nomemory.server.lexical.query.tree import AllOf, Leaf, Node, Query, Sign, Stream, all_of, any_of, count_terms
from nomemory.text.analysis import Kind, Token, terms, tokenise
from nomemory.text.names import naming_terms
from nomemory.text.normalisation import visible
from nomemory.text.question_reading import QuestionReading
from nomemory.text.question_words import without_asking_words
from nomemory.text.stems import stems
from nomemory.text.stop_words import CLITICS, CONTRACTED, STOP_WORDS

_OF_WORD = frozenset("#@%&*/\\_")
"""Punctuation that belongs to the word it stands at. The rest belongs to the sentence, and is dropped at the ends."""


_BREAKS = frozenset("，、。；？！…·｡､")
"""Punctuation that parts words even without a space. (Not the full-width colon and stop: they stand in 5：30.)"""


@dataclass(frozen=True, slots=True)
class Leaves:
    """What text asks for where it only ranks: `weak` counts where nothing beside it is strong."""

    strong: tuple[Node, ...] = ()
    weak: tuple[Node, ...] = ()


def combined(readings: Iterable[Leaves]) -> Leaves:
    """Put readings side by side."""
    beside = list(readings)
    return Leaves(
        tuple(node for reading in beside for node in reading.strong),
        tuple(node for reading in beside for node in reading.weak),
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


def ranked(word: str) -> Leaves:
    """Read a bare word that ranks: runs of unspaced script by their pairs, the knots between them as they are."""
    return combined(_pairs(run) if kind is Kind.CHARACTER else _knot(run) for kind, run in _runs(tokenise(word), word))


def _runs(tokens: Sequence[Token], word: str) -> Iterator[tuple[Kind, list[Token]]]:
    """Part a word into runs of characters, knots of words and symbols, and the punctuation that breaks them."""

    def place(token: Token) -> tuple[Kind, bool]:
        kind = Kind.CHARACTER if token.kind is Kind.CHARACTER else Kind.WORD
        return kind, word[token.start] in _BREAKS

    for (kind, _), run in groupby(tokens, place):
        yield kind, list(run)


def _pairs(run: Sequence[Token]) -> Leaves:
    if len(run) == 1:
        return Leaves(strong=(_literal(run),))
    return Leaves(strong=tuple(Leaf(Stream.TERMS, (term.text,)) for term in terms(run)))


def _knot(knot: Sequence[Token]) -> Leaves:
    """Read words and symbols without a space between them: a lone word, a possessive, C++, an address, an emoji."""
    core = _trimmed(knot)
    if _is_weak(core):
        return Leaves(weak=(_literal(core),))
    if _ranks(core[0]) and (len(core) == 1 or _is_possessive(core)):
        return Leaves(strong=(_stem(core[0]),))
    return Leaves(strong=(_literal(core),))


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


_QUESTION_MAX_CHARS: Final = 4_000
"""A longer text is not read as a question."""


def as_asked(reading: QuestionReading, query: Query, phrases: Iterable[Leaf]) -> Query:
    """Rank what a text of words and phrases asks above what it says beside; its phrases are always asked.

    Neither changes what the query matches. A text that asks nothing is asked as a whole.
    """
    text = reading.text
    if query.is_uniform or len(text) > _QUESTION_MAX_CHARS:
        return query
    bare = " ".join(map(without_asking_words, reading.sentences)).split() if reading.asks else []
    aside = _aside(query.leaves, bare, phrases) if bare and bare != text.split() else frozenset[Leaf]()
    return Query(query.root, aside, tuple(_signs(reading)), by_form=True)


def _aside(leaves: Sequence[Leaf], words: Iterable[str], phrases: Iterable[Leaf]) -> frozenset[Leaf]:
    """Return the leaves that are not among the words of the sentences that ask, or only say there that it asks."""
    asked = {*phrases, *combined(map(ranked, words)).strong}
    return frozenset(leaf for leaf in leaves if leaf not in asked) if asked.intersection(leaves) else frozenset()


def _signs(reading: QuestionReading) -> Iterable[Sign]:
    names = naming_terms(reading.text)
    if names:
        yield Sign(tuple(names))
    if reading.asks and reading.asks_of_self:
        yield Sign()


_PARSED_KEPT = 256
"""Queries that are cached: paging sends the same query again, and a recall repeats words."""


_OPERATORS = frozenset([MarkKind.AND, MarkKind.OR, MarkKind.NOT])


@dataclass(frozen=True, slots=True)
class Limits:
    """How complex a query may be: characters of its text, terms and phrases, levels of parentheses.

    A phrase counts as one term for every eight of its words, symbols or unspaced characters begun.
    """

    chars: int
    terms: int
    depth: int


@lru_cache(_PARSED_KEPT)
def parse(text: str, limits: Limits) -> Query:
    """Read a query. Any text is a query: what cannot be an operator is text. Blank text is the empty query.

    Takes time and memory O(n) in the length of the text. Recursion goes no deeper than the parentheses may nest, and
    starts only after that was checked.

    Raises:
        Fault: QUERY_TOO_COMPLEX, naming `query_text`, if a limit is exceeded.
    """
    if len(text) > limits.chars:
        raise _too_complex(f"is longer than {limits.chars} characters")
    text = visible(text)
    marks = scan(text)
    if not marks:
        return Query()
    if depth(marks) > limits.depth:
        raise _too_complex(f"nests deeper than {limits.depth} levels")
    root = _clause(arrange(iter(marks)), decides=False)
    if count_terms(root) > limits.terms:
        raise _too_complex(f"has more than {limits.terms} terms")
    return _asked(text, marks, Query(root))


def _asked(text: str, marks: Sequence[Mark], query: Query) -> Query:
    """Read words and phrases without operators as a question."""
    if any(mark.kind in _OPERATORS for mark in marks):
        return query
    return as_asked(QuestionReading(text), query, [phrase(mark.text) for mark in marks if mark.kind is MarkKind.PHRASE])


def _too_complex(description: str) -> Fault:
    return bad_field(Reason.ERROR_REASON_QUERY_TOO_COMPLEX, Violation("query_text", description))


def _clause(clause: Clause, *, decides: bool) -> Node:
    """Resolve a clause. Under AND and NOT, text is taken exactly, because it decides what matches; the rest ranks."""
    return any_of(_group(chains, decides=decides) for chains in clause)


def _group(chains: Sequence[Chain], *, decides: bool) -> Node:
    """Resolve operands side by side: any of them, without the negated ones."""
    reading = combined(_reading(chain, decides=decides) for chain in chains)
    refused = [node for node in reading.strong if isinstance(node, AllOf) and node.only_negates]
    asked = [node for node in reading.strong if node not in refused] or reading.weak
    return all_of([any_of(asked), *refused] if asked else refused)


def _reading(chain: Chain, *, decides: bool) -> Leaves:
    match chain:
        case [Operand(Mark(MarkKind.WORD, word), negated=False)] if not decides:
            return ranked(word)
        case _:
            return Leaves(strong=(_chain(chain, decides=decides),))


def _chain(chain: Chain, *, decides: bool) -> Node:
    """Resolve operands that are joined by AND, or one alone."""
    decides = decides or len(chain) > 1 or chain[0].negated
    wanted = [_part(operand.part, decides=decides) for operand in chain if not operand.negated]
    unwanted = [_part(operand.part, decides=decides) for operand in chain if operand.negated]
    return all_of(wanted, unwanted)


def _part(part: Mark | Clause, *, decides: bool) -> Node:
    if isinstance(part, Mark):
        return phrase(part.text) if part.kind is MarkKind.PHRASE else exact(part.text)
    return _clause(part, decides=decides)
