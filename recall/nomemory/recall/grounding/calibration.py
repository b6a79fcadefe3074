"""Calibrate the sufficiency that HybridSearch returns: half of the questions at 0.5 are answered by the log.

The map is logistic (Platt, 1999): an offset and a slope for the log odds. Constants for a user's talk with an assistant
were fitted on 511 questions: twelve people's own questions, the same questions asked of the next person, and those of
the sample. Of left-out people, the Brier score falls from 0.186 to 0.181, that of the sample from 0.246 to 0.234
(docs/quality.md). For other conversations only one point is known, the sufficiency that separates answered questions
from the others best: it is mapped to 0.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from nomemory.recall.model.sufficiency import Sufficiency

_LEAST: Final = 1e-4
"""Probabilities closer to 0 or 1 count as this close."""


@dataclass(frozen=True, slots=True)
class _Map:
    """An offset and a slope for log odds."""

    offset: float
    slope: float

    def probability(self, probability: float) -> float:
        """Return the calibrated probability."""
        bounded = min(max(probability, _LEAST), 1 - _LEAST)
        odds = self.offset + self.slope * math.log(bounded / (1 - bounded))
        return 1 / (1 + math.exp(-odds))


_UNNAMED: Final = _Map(-0.1, 0.46)
"""A user talks with an assistant."""
_SPEAKER: Final = _Map(0.0, 1.0)
"""The question names one of several speakers; fitted to LoCoMo as it is."""
_NAMED: Final = _Map(0.2, 1.0)
"""People with names talk, and the question names none: 0.45 becomes 0.5."""
_BY_WORDS: Final = _Map(-1.34, 1.22)
"""Words alone tell: 0.75 becomes 0.5, and 0.6, where hardly a word of the question was found, 0.3."""


def calibrated(sufficiency: Sufficiency, *, named: bool) -> float:
    """Return how likely the log is to answer.

    Args:
        sufficiency: what a search says.
        named: whether speakers have names.
    """
    return _map(sufficiency, named=named).probability(sufficiency.probability)


def _map(sufficiency: Sufficiency, *, named: bool) -> _Map:
    if sufficiency.speaker_matched:
        return _SPEAKER
    if sufficiency.by_words:
        return _BY_WORDS
    return _NAMED if named else _UNNAMED
