"""Weights of queries that are natural-language questions: terms outside question sentences have a lower weight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nomemory.server.search.grammar.text_terms import combine_term_sets, extract_word_ranking_terms
from nomemory.server.search.grammar.tree import Leaf, Query, SpeakerBoost
from nomemory.text.names import extract_candidate_name_terms
from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.question_words import remove_question_words

_QUESTION_MAX_CHARS: Final = 4_000
"""Longer texts are not analyzed as questions."""


def apply_question_weights(analysis: QuestionAnalysis, query: Query, phrases: Iterable[Leaf]) -> Query:
    """Return the query with speaker boosts, and with lower weights for terms outside question sentences.

    The weights of phrases and the set of matches do not change. If no sentence is a question, no weights change.
    """
    text = analysis.text
    if query.has_uniform_score or len(text) > _QUESTION_MAX_CHARS:
        return query
    words = (
        " ".join(map(remove_question_words, analysis.question_sentences)).split() if analysis.contains_question else []
    )
    downweighted = (
        _find_leaves_outside_question(query.leaves, words, phrases)
        if words and words != text.split()
        else frozenset[Leaf]()
    )
    return Query(query.root, downweighted, tuple(_build_speaker_boosts(analysis)), uses_class_weight=True)


def _find_leaves_outside_question(
    leaves: Sequence[Leaf], words: Iterable[str], phrases: Iterable[Leaf]
) -> frozenset[Leaf]:
    """Return all terms except phrases and the content words of question sentences.

    The result is empty if no phrase or content word of a question sentence is a term of the query.
    """
    in_question = {*phrases, *combine_term_sets(map(extract_word_ranking_terms, words)).strong_terms}
    return (
        frozenset(leaf for leaf in leaves if leaf not in in_question)
        if in_question.intersection(leaves)
        else frozenset()
    )


def _build_speaker_boosts(analysis: QuestionAnalysis) -> Iterable[SpeakerBoost]:
    names = extract_candidate_name_terms(analysis.text)
    if names:
        yield SpeakerBoost(tuple(names))
    if analysis.contains_question and analysis.asks_in_first_person:
        yield SpeakerBoost()
