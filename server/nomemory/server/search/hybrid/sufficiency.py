"""The probability that what a search found answers the question.

Two things tell. Whether the topic was spoken of: how near in meaning the best message is, and how much of the question
its words cover. And, where the question names one speaker among several, whether that was said of them: most
questions that nothing answers ask of one person what another has said or done. Who speaks is half of that. "I ran the
race" is about its speaker, "your race must have been hard" and "how was the race?" about the other, whose race it was.

The scores of the final ranking say little here: they prefer the person whom the question names, and the best is always
about 1. So what is looked at is how well messages match, without any preference for who spoke.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Flags, Floats, Ints
from nomemory.text.language import FIRST_PERSON, SECOND_PERSON

_LOOKED_AT: Final = 40
"""Of the messages, the best are looked at; from 20 to 60 it makes no difference."""
_TEMPERATURE: Final = 0.15
"""How much better a message must match to count e times more when it is told whom the topic was said of."""

_OFFSET: Final = 0.35
"""The log odds where the best message is typically near, holds no word of the question, and nobody is told apart."""
_NEARNESS: Final = 14.0
"""The log odds of one more of cosine. The embedder's cosines lie close together: 0.80 is far, 0.90 near."""
_TYPICAL_COSINE: Final = 0.85
"""A cosine that says nothing; it stands in where cosines are not known."""
_COVERAGE: Final = 2.2
"""The log odds of a message that covers all of the question's words."""
_TYPICAL_COVERAGE: Final = 0.5
"""It stands in where the question has no words to look for."""
_PERSON: Final = 4.5
"""The log odds of a topic that was said of the person asked about only; the other way round, of others only."""
_EVEN: Final = 0.13
"""How much a topic leans towards the person asked about where that says nothing."""

_USER_OFFSET: Final = -6.34
"""The log odds where nothing lies above what is usual for the user and no word of the question is found."""
_ABOVE_MEAN: Final = 69.3
"""The log odds of one more of cosine above the user's mean, of the shipped embedder."""
_USUAL_COSINE: Final = 0.80
"""The mean of users' means, of the shipped embedder."""
_USUAL_WEIGHT: Final = 0.5
"""As how many messages it counts: about the variance within users over that of their means. From 0.25 to 2 it makes
little difference."""
_COVERED: Final = 2.39
"""The log odds of a message that covers all of the question's words, beside that."""
_UNKNOWN: Final = 1.8
"""The log odds that a question loses whose words the user never said."""
_TOPIC: Final = 4.07
"""The log odds of a topic that was spoken of for certain, by the first function."""

_OF_SPEAKER: Final = 1.0
_OF_BOTH: Final = 0.55
_OF_ADDRESSED: Final = -0.35
_OF_NOBODY_NAMED: Final = 0.9
_ASKS_ADDRESSED: Final = -0.25
_ASKS: Final = -0.15


@dataclass(frozen=True, slots=True)
class Candidates:
    """The messages that a search may return; all parallel, in any order. For several sentences, the best of each.

    Attributes:
        matching: how well a message matches, 0 to 1, the best about 1: meaning and words alone, with no preference for
            who spoke. Names of speakers among the words do no harm, here and in `coverage`.
        cosines: of the shipped embedder, raw; None where there are none, or where they are another embedder's.
        mean: of the cosines of all of the user's messages.
        count: how many messages these are.
        coverage: how much of the weight of the question's words stands in the message, 0 to 1; None where the question
            has no words to look for.
        unknown: how much of that weight, 0 to 1, is of words that the user never said.
        asserting: whether the message says something of those whose memory this is, and does not only ask.
        spoken_by: who speaks, as a number from 0; -1 where that is not known.
        asking: whether the message ends with a question.
        text_of: returns what one of them says, without descriptions of attachments.
    """

    matching: Floats
    cosines: Floats | None
    mean: float
    count: int
    coverage: Floats | None
    unknown: float
    asserting: Flags
    spoken_by: Ints
    asking: Flags
    text_of: Callable[[int], str]

    def best(self) -> Self:
        """Return those that match best."""
        chosen = np.argsort(-self.matching, kind="stable")[:_LOOKED_AT]
        places, text_of = chosen.tolist(), self.text_of
        return replace(
            self,
            matching=self.matching[chosen],
            cosines=None if self.cosines is None else self.cosines[chosen],
            coverage=None if self.coverage is None else self.coverage[chosen],
            asserting=self.asserting[chosen],
            spoken_by=self.spoken_by[chosen],
            asking=self.asking[chosen],
            text_of=lambda at: text_of(places[at]),
        )


def sufficiency(candidates: Candidates, asked: Collection[int], speakers: int) -> float:
    """Return the probability that the question is answered, by logistic functions.

    Where speakers are told apart, that tells most. Elsewhere the best signal is how far the nearest message lies above
    what is usual for this user and this question; it needs the shipped embedder's cosines.

    Args:
        candidates: what was found.
        asked: the speakers whom the question names.
        speakers: how many speakers have a name; 0 where none has.
    """
    if not len(candidates.matching):
        return 0.0
    by_topic = _by_topic(candidates, asked, speakers)
    if candidates.cosines is None or speaker_matched(asked, speakers):
        return by_topic
    asserted = candidates.cosines[candidates.asserting]
    best = float((asserted if len(asserted) else candidates.cosines).max())
    above = best - _usual(candidates, best)
    covered = _TYPICAL_COVERAGE if candidates.coverage is None else float(candidates.coverage.max())
    odds = _USER_OFFSET + _ABOVE_MEAN * above + _COVERED * covered - _UNKNOWN * candidates.unknown + _TOPIC * by_topic
    return 1 / (1 + math.exp(-odds))


def _usual(candidates: Candidates, best: float) -> float:
    """Return the mean cosine of the other messages. Of a user with a handful of them it is drawn to that of users."""
    others = candidates.count * candidates.mean - best
    return (others + _USUAL_WEIGHT * _USUAL_COSINE) / (candidates.count - 1 + _USUAL_WEIGHT)


def _by_topic(candidates: Candidates, asked: Collection[int], speakers: int) -> float:
    """Return the probability by topic and person. A feature that cannot be told moves the odds neither way."""
    best = candidates.best()
    about = _about(best, asked, speakers)
    odds = _OFFSET + _NEARNESS * (_most(best.cosines, about, _TYPICAL_COSINE) - _TYPICAL_COSINE)
    odds += _COVERAGE * _most(best.coverage, about, _TYPICAL_COVERAGE)
    if speaker_matched(asked, speakers):
        odds += _PERSON * (_leaning(best.matching, about) - _EVEN)
    return 1 / (1 + math.exp(-odds))


def speaker_matched(asked: Collection[int], speakers: int) -> bool:
    """Return whether the question asks about one of several: then it counts of whom something was said."""
    return len(asked) == 1 and speakers > 1


def subject(text: str, *, asks: bool) -> float:
    """Return of whom a message speaks: from 1, of its speaker, to -1, of whom it addresses."""
    of_self, of_other = bool(FIRST_PERSON.search(text)), bool(SECOND_PERSON.search(text))
    if asks:
        return _ASKS_ADDRESSED if of_other else _ASKS
    if of_other:
        return _OF_BOTH if of_self else _OF_ADDRESSED
    return _OF_SPEAKER if of_self else _OF_NOBODY_NAMED


def _about(candidates: Candidates, asked: Collection[int], speakers: int) -> Floats:
    """Return how much each message is about whom the question asks, 1 to -1; all are, where it names nobody."""
    by_asked = np.isin(candidates.spoken_by, list(asked))
    if not speaker_matched(asked, speakers):
        return np.where(by_asked, 1.0, 0.0) if asked else np.ones(len(by_asked))
    asking = enumerate(candidates.asking.tolist())
    subjects = np.array([subject(candidates.text_of(at), asks=asks) for at, asks in asking])
    # Whoever else is addressed is the one asked about for sure only between two.
    to_asked = 2 / (speakers - 1) - 1
    by_others = np.where(subjects < 0, -subjects * to_asked, -subjects)
    return np.where(by_asked, subjects, by_others)


def _most(values: Floats | None, about: Floats, typical: float) -> float:
    """Return the most of any message that is about whom the question asks; of any, if none is."""
    if values is None:
        return typical
    bearing = values[about > 0]
    return float(bearing.max() if len(bearing) else values.max())


def _leaning(matching: Floats, about: Floats) -> float:
    """Return the mean of what messages are about, the better matching ones counting more."""
    leads = np.exp((matching - matching.max()) / _TEMPERATURE)
    return float((leads * about).sum() / leads.sum())
