"""Reading a text without operators as a person's question: what it asks counts more than what it says beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.server.search.grammar.text_terms import combined, ranked
from nomemory.server.search.grammar.tree import Leaf, Query, SpeakerBoost
from nomemory.text.names import naming_terms
from nomemory.text.question_reading import QuestionReading
from nomemory.text.question_words import without_asking_words

_QUESTION_MAX_CHARS: Final = 4_000
"""A longer text is not read as a question."""


def as_question(reading: QuestionReading, query: Query, phrases: Iterable[Leaf]) -> Query:
    """Return a query that ranks the asked words above the others; its phrases always count in full.

    Neither changes which messages match. A text without a question counts as a whole.
    """
    text = reading.text
    if query.is_uniform or len(text) > _QUESTION_MAX_CHARS:
        return query
    words = " ".join(map(without_asking_words, reading.sentences)).split() if reading.asks else []
    downweighted = _not_asked(query.leaves, words, phrases) if words and words != text.split() else frozenset[Leaf]()
    return Query(query.root, downweighted, tuple(_boosts(reading)), by_class=True)


def _not_asked(leaves: Sequence[Leaf], words: Iterable[str], phrases: Iterable[Leaf]) -> frozenset[Leaf]:
    """Return the leaves that are in no sentence that asks, or only say there that it asks."""
    asked = {*phrases, *combined(map(ranked, words)).strong}
    return frozenset(leaf for leaf in leaves if leaf not in asked) if asked.intersection(leaves) else frozenset()


def _boosts(reading: QuestionReading) -> Iterable[SpeakerBoost]:
    names = naming_terms(reading.text)
    if names:
        yield SpeakerBoost(tuple(names))
    if reading.asks and reading.asks_of_self:
        yield SpeakerBoost()
