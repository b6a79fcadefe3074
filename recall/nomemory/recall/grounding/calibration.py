"""Convert a sufficiency estimate to a probability that the message log contains the answer.

The calibration is logistic (Platt, 1999): it applies an offset and a slope to the log odds. The constants for
conversations with an assistant were fitted on 511 questions: the questions of twelve people, the same questions asked
about a different person, and the questions of the sample. docs/quality.md has the Brier scores on held-out people. For
conversations between people, the offset maps the best decision threshold to 0.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from nomemory.recall.model.sufficiency import Sufficiency

_MIN_PROBABILITY: Final = 1e-4
"""Probabilities are clipped to this distance from 0 and 1."""


@dataclass(frozen=True, slots=True)
class _LogisticCalibration:
    """A logistic calibration with an offset and a slope for the log odds."""

    offset: float
    slope: float

    def calibrate(self, probability: float) -> float:
        """Convert an uncalibrated probability to a calibrated probability."""
        bounded = min(max(probability, _MIN_PROBABILITY), 1 - _MIN_PROBABILITY)
        odds = self.offset + self.slope * math.log(bounded / (1 - bounded))
        return 1 / (1 + math.exp(-odds))


_UNNAMED: Final = _LogisticCalibration(-0.1, 0.46)
"""Conversations between a user and an assistant."""
_SPEAKER: Final = _LogisticCalibration(0.0, 1.0)
"""Questions that name one of several people; fitted on LoCoMo."""
_NAMED: Final = _LogisticCalibration(0.2, 1.0)
"""Questions without a name in conversations between named people: 0.45 becomes 0.5."""
_LEXICAL_ONLY: Final = _LogisticCalibration(-1.34, 1.22)
"""Lexical search only: 0.75 becomes 0.5, and 0.6, where almost no query words match, becomes 0.3."""


def calibrate_sufficiency(sufficiency: Sufficiency, *, has_sender_names: bool) -> float:
    """Return the calibrated probability that the message log answers the question.

    Args:
        sufficiency: the uncalibrated estimate of a hybrid search.
        has_sender_names: whether the messages come from conversations between named people.
    """
    return _select_calibration(sufficiency, has_sender_names=has_sender_names).calibrate(sufficiency.probability)


def _select_calibration(sufficiency: Sufficiency, *, has_sender_names: bool) -> _LogisticCalibration:
    if sufficiency.speaker_matched:
        return _SPEAKER
    if sufficiency.lexical_only:
        return _LEXICAL_ONLY
    return _NAMED if has_sender_names else _UNNAMED
