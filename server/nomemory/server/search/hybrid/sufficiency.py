"""Sufficiency: the estimated probability that the results answer the question.

The estimate is a logistic regression with these features:

- The cosine of the best message. The query adapter is trained to give messages that answer a question a higher cosine
  than messages on the same topic, so the cosine alone separates most answerable questions.
- The share of the query terms that a message contains, and the share that no message contains.
- Person, if the question names one of several authors and most messages have an author name: whether the best messages
  are about that author. Most unanswerable questions about a person ask for something that another person said or did.
  The author of a message does not determine its subject: "I ran the race" is about its author, while "your race must
  have been hard" and "how was the race?" are about the addressee.

The features use the match scores only. The scores of the final ranking are unsuitable, because they include a bonus for
the person that the question names, and the best score is always about 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Flags, Floats, Ints
from nomemory.text.language import FIRST_PERSON, SECOND_PERSON

_MAX_MESSAGES: Final = 40
"""Number of the best messages that are considered. Values from 20 to 60 give the same results."""
_TEMPERATURE: Final = 0.15
"""Temperature of the softmax over the match scores in the person feature."""

_INTERCEPT: Final = 0.35
"""Intercept of the topic model."""
_COSINE: Final = 4.0
"""Coefficient of the cosine."""
_TYPICAL_COSINE: Final = 0.73
"""Cosine with no effect on the estimate; used if cosines are unavailable."""
_COVERAGE: Final = 2.2
"""Coefficient of the coverage."""
_TYPICAL_COVERAGE: Final = 0.5
"""Coverage that is used if the question has no query terms."""
_PERSON: Final = 4.5
"""Coefficient of the person feature."""
_NEUTRAL_PERSON: Final = 0.13
"""Value of the person feature with no effect on the estimate."""

_COSINE_INTERCEPT: Final = -17.8
"""Intercept of the cosine model, for queries that the query adapter embeds."""
_BEST_COSINE: Final = 27.6
"""Coefficient of the best cosine in that model."""
_SHARED_TERMS: Final = 0.9
"""Coefficient, subtracted, of the maximum coverage in that model. Query terms without similarity mean the same topic
without an answer."""
_CHANCE_DEVIATION: Final = 0.04
"""Standard deviation of the cosines of messages that do not answer. The expected maximum of n such cosines grows with
sqrt(2 ln n), so the best cosine of a user with many messages means less."""
_FITTED_COUNT: Final = 100
"""Typical number of messages of the users that the constants were fitted on."""
_UNKNOWN_TERMS: Final = 1.0
"""Coefficient, subtracted, of the share of unknown query terms in that model."""

_ABOUT_AUTHOR: Final = 1.0
_ABOUT_BOTH: Final = 0.55
_ABOUT_ADDRESSEE: Final = -0.35
_NO_PRONOUN: Final = 0.9
_QUESTION_TO_ADDRESSEE: Final = -0.25
_QUESTION: Final = -0.15


@dataclass(frozen=True, slots=True)
class SufficiencyFeatures:
    """Features of the messages that a search may return, as parallel arrays.

    Values are maxima over the sentences of the question.

    Attributes:
        match_scores: semantic and lexical match scores without bonuses, at most about 1.
        cosines: cosine similarities of the local model; None if another embedder or none was used.
        coverage: the weighted share of the query terms in each message, 0 to 1; None without query terms.
        message_count: the number of messages of the user.
        unknown_terms: the IDF-weighted share of the query terms that no message of the user contains, 0 to 1.
        is_assertion: whether each message is an assertion by the user or by an author with a name.
        speaker_indexes: the index of each message's author; -1 if the author is unknown.
        get_text: a function that returns the text of the message at an index, without descriptions of attachments.
    """

    match_scores: Floats
    cosines: Floats | None
    coverage: Floats | None
    message_count: int
    unknown_terms: float
    is_assertion: Flags
    speaker_indexes: Ints
    ends_with_question: Flags
    get_text: Callable[[int], str]

    def select_best(self) -> Self:
        """Return the features of the messages with the best match scores."""
        best = np.argsort(-self.match_scores, kind="stable")[:_MAX_MESSAGES]
        indexes, get_text = best.tolist(), self.get_text
        return replace(
            self,
            match_scores=self.match_scores[best],
            cosines=None if self.cosines is None else self.cosines[best],
            coverage=None if self.coverage is None else self.coverage[best],
            is_assertion=self.is_assertion[best],
            speaker_indexes=self.speaker_indexes[best],
            ends_with_question=self.ends_with_question[best],
            get_text=lambda at: get_text(indexes[at]),
        )


def estimate_sufficiency(features: SufficiencyFeatures, persons: Collection[int], speaker_count: int) -> float:
    """Return the estimated probability that the messages answer the question.

    If the question names one of several authors, the person feature has the highest weight. For other questions, the
    strongest feature is the best cosine. Only cosines of the local model are comparable between questions.

    `persons` are the indexes of the authors that the question names. `speaker_count` is the number of authors with a
    name.
    """
    if not len(features.match_scores):
        return 0.0
    if features.cosines is None or names_single_speaker(persons, speaker_count):
        return _estimate_topic_probability(features, persons, speaker_count)
    asserted = features.cosines[features.is_assertion]
    best = float((asserted if len(asserted) else features.cosines).max())
    best -= _CHANCE_DEVIATION * (_estimate_maximum(features.message_count) - _estimate_maximum(_FITTED_COUNT))
    coverage = _TYPICAL_COVERAGE if features.coverage is None else float(features.coverage.max())
    log_odds = _COSINE_INTERCEPT + _BEST_COSINE * best
    log_odds -= _SHARED_TERMS * coverage + _UNKNOWN_TERMS * features.unknown_terms
    return 1 / (1 + math.exp(-log_odds))


def _estimate_maximum(count: int) -> float:
    """Return the approximate maximum of `count` standard normal values."""
    return math.sqrt(2 * math.log(max(count, 1)))


def _estimate_topic_probability(features: SufficiencyFeatures, persons: Collection[int], speaker_count: int) -> float:
    """Return the probability estimated from the topic and person features.

    A missing feature does not affect the estimate.
    """
    best = features.select_best()
    aboutness = _compute_aboutness_scores(best, persons, speaker_count)
    log_odds = _INTERCEPT + _COSINE * (
        _select_best_person_value(best.cosines, aboutness, _TYPICAL_COSINE) - _TYPICAL_COSINE
    )
    log_odds += _COVERAGE * _select_best_person_value(best.coverage, aboutness, _TYPICAL_COVERAGE)
    if names_single_speaker(persons, speaker_count):
        log_odds += _PERSON * (_compute_weighted_mean(best.match_scores, aboutness) - _NEUTRAL_PERSON)
    return 1 / (1 + math.exp(-log_odds))


def names_single_speaker(persons: Collection[int], speaker_count: int) -> bool:
    """Return whether the question names exactly one of several authors, as the person feature requires."""
    return len(persons) == 1 and speaker_count > 1


def compute_subject_score(text: str, *, is_question: bool) -> float:
    """Return a score for the subject of a message, from 1 (about its author) to -1 (about the addressee)."""
    has_first_person, has_second_person = bool(FIRST_PERSON.search(text)), bool(SECOND_PERSON.search(text))
    if is_question:
        return _QUESTION_TO_ADDRESSEE if has_second_person else _QUESTION
    if has_second_person:
        return _ABOUT_BOTH if has_first_person else _ABOUT_ADDRESSEE
    return _ABOUT_AUTHOR if has_first_person else _NO_PRONOUN


def _compute_aboutness_scores(features: SufficiencyFeatures, persons: Collection[int], speaker_count: int) -> Floats:
    """Return a score, -1 to 1, of how much each message is about the persons; all 1 if the question names nobody."""
    by_person = np.isin(features.speaker_indexes, list(persons))
    if not names_single_speaker(persons, speaker_count):
        return np.where(by_person, 1.0, 0.0) if persons else np.ones(len(by_person))
    is_question = enumerate(features.ends_with_question.tolist())
    subjects = np.array([compute_subject_score(features.get_text(at), is_question=asks) for at, asks in is_question])
    # Only with two authors is the addressee certainly the other one.
    addressee_weight = 2 / (speaker_count - 1) - 1
    by_others = np.where(subjects < 0, -subjects * addressee_weight, -subjects)
    return np.where(by_person, subjects, by_others)


def _select_best_person_value(values: Floats | None, aboutness: Floats, typical: float) -> float:
    """Return the highest value of the messages about the persons, or of all messages if none is about the persons."""
    if values is None:
        return typical
    relevant = values[aboutness > 0]
    return float(relevant.max() if len(relevant) else values.max())


def _compute_weighted_mean(match_scores: Floats, aboutness: Floats) -> float:
    """Return the mean of the aboutness scores, weighted by a softmax of the match scores."""
    weights = np.exp((match_scores - match_scores.max()) / _TEMPERATURE)
    return float((weights * aboutness).sum() / weights.sum())
