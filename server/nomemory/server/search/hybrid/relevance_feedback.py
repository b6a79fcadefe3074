"""Relevance feedback in one hop: messages that share rare words with the best ones.

"The one who is 57, what does he do?" One message says that uncle Li is 57, another that uncle Li drives a bus: the
second matches little of the question, and shares "uncle Li" with the first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Floats, Timeline
from nomemory.server.search.hybrid.term_occurrences import Found
from nomemory.server.search.hybrid.term_scores import rarity

RARE: Final = 64
"""A term in more of a user's messages than this does not relate them."""
_LEADERS: Final = 10
_TEMPERATURE: Final = 0.05
"""Temperature of the leads: a message that scores this much better leads e times as much."""
_LEAST_LEAD: Final = 0.05
"""Messages that lead less than this share of the first are not followed."""
_DECIMALS: Final = 6
"""Scores that differ less are equal."""
_TERMS_OF_LEADER: Final = 8
_TYPICAL_RARITY: Final = 0.76
"""Average rarity of a message's terms, as a share of the rarity of a term that stands once."""
_CHARS_OF_TERM: Final = 5.0
"""About how many characters of a message hold one term, in either script."""


@dataclass(frozen=True, slots=True)
class Leader:
    """One of the best messages: its place, its share of the lead (all shares add up to 1), and its terms."""

    place: int
    lead: float
    terms: tuple[str, ...]


def leaders(timeline: Timeline, scores: Floats, known: Collection[str]) -> list[Leader]:
    """Choose the messages to follow: none of several that are equally good if there are too many of them.

    Args:
        timeline: the messages.
        scores: how good they are.
        known: terms that add nothing: the question's, and the speakers'.
    """
    rounded = np.round(scores, _DECIMALS)
    best = np.argsort(-rounded, kind="stable")[: _LEADERS + 1]
    if len(best) > _LEADERS:
        best = best[rounded[best] > rounded[best[-1]]]
    if not len(best):
        return []
    leads = np.exp((scores[best] - scores[best].max(initial=0.0)) / _TEMPERATURE)
    leads /= leads.sum()
    followed = [
        (int(place), float(lead)) for place, lead in zip(best, leads, strict=True) if lead >= _LEAST_LEAD * leads[0]
    ]
    return [
        Leader(place, lead, tuple(term for term in timeline.beginning_terms_at(place) if term not in known))
        for place, lead in followed
    ]


def shared(timeline: Timeline, followed: Sequence[Leader], found: Mapping[str, Found], total: int) -> Floats:
    """Return for each message the most that it shares with a leader: a cosine of rarities times the lead.

    Args:
        timeline: the messages.
        followed: the leaders.
        found: where their terms stand; the places at least of those that are rare.
        total: how many messages the user has.
    """
    if not followed:
        return np.zeros(len(timeline))
    squares = {term: rarity(item.count, total) ** 2 for term, item in found.items()}
    lengths = _TYPICAL_RARITY * rarity(1, total) * np.sqrt(np.maximum(timeline.lengths / _CHARS_OF_TERM, 1.0))
    likeness = _in_common(timeline, [_rarest(leader.terms, found) for leader in followed], found, squares)
    likeness /= np.array([[_length(leader.terms, squares)] for leader in followed]) * lengths
    likeness[np.arange(len(followed)), [leader.place for leader in followed]] = 1.0
    leads = np.array([[leader.lead] for leader in followed])
    most: Floats = (leads * np.minimum(likeness, 1.0)).max(axis=0, initial=0.0)
    return most


def _in_common(
    timeline: Timeline, tying: Sequence[Sequence[str]], found: Mapping[str, Found], squares: Mapping[str, float]
) -> Floats:
    """Return for each leader (row) and message (column) the sum of the squares of those terms that tie them."""
    tied = [(row * len(timeline), term) for row, terms in enumerate(tying) for term in terms]
    if not tied:
        return np.zeros((len(tying), len(timeline)))
    places = [found[term].places for _, term in tied]
    sizes = list(map(len, places))
    cells = np.repeat([start for start, _ in tied], sizes) + np.concatenate(places)
    worths = np.repeat([squares[term] for _, term in tied], sizes)
    sums = np.bincount(cells, worths, len(tying) * len(timeline))
    return sums.reshape(len(tying), len(timeline)).astype(np.float64, copy=False)


def _rarest(of_leader: Collection[str], found: Mapping[str, Found]) -> list[str]:
    """Return the rarest terms that stand elsewhere, too."""
    tying = [(one.count, term) for term in of_leader if (one := found.get(term)) and 1 < one.count <= RARE]
    return [term for _, term in sorted(tying)[:_TERMS_OF_LEADER]]


def _length(of_leader: Collection[str], squares: Mapping[str, float]) -> float:
    return math.sqrt(sum(squares[term] for term in of_leader if term in squares)) or 1.0
