"""A query that is a question: what of it is asked, and whose words would answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.server.lexical.leaves import combined, ranked
from nomemory.server.lexical.query import Leaf, Query, Sign
from nomemory.text.asking import asking_sentences
from nomemory.text.names import naming_terms
from nomemory.text.question_words import ASKING_CHINESE, ASKS

_FIRST_PERSON: Final = re.compile(r"\b(?:I|me|my|mine|we|us|our)\b|我|咱|俺")

_QUESTION_MAX_CHARS: Final = 4_000
"""No longer text is read as a question."""


def as_asked(text: str, query: Query, phrases: Iterable[Leaf]) -> Query:
    """Return what a text of words and phrases asks from what it says beside; its phrases are always asked.

    Neither changes what the query matches. A text that asks nothing is asked as a whole.
    """
    if query.is_uniform or len(text) > _QUESTION_MAX_CHARS:
        return query
    sentences = asking_sentences(text) if ASKS.search(text) else []
    bare = " ".join(ASKING_CHINESE.sub(" ", sentence) for sentence in sentences).split()
    aside = _aside(query.leaves, bare, phrases) if bare and bare != text.split() else frozenset[Leaf]()
    return Query(query.root, aside, tuple(_signs(text, sentences)), by_form=True)


def _aside(leaves: Sequence[Leaf], words: Iterable[str], phrases: Iterable[Leaf]) -> frozenset[Leaf]:
    """Return the leaves that are not among the words of the sentences that ask, or only say there that it asks."""
    asked = {*phrases, *combined(map(ranked, words)).strong}
    return frozenset(leaf for leaf in leaves if leaf not in asked) if asked.intersection(leaves) else frozenset()


def _signs(text: str, sentences: Sequence[str]) -> Iterable[Sign]:
    names = naming_terms(text)
    if names:
        yield Sign(tuple(names))
    if any(map(_FIRST_PERSON.search, sentences)):
        yield Sign()
