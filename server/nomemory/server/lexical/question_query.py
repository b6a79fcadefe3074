"""Reads a query as a question: which words are asked, and whose words would answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.server.lexical.leaves import combined, ranked
from nomemory.server.lexical.query import Leaf, Query, Sign
from nomemory.text.asking import without_asking_words
from nomemory.text.names import naming_terms
from nomemory.text.question_reading import QuestionReading

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
