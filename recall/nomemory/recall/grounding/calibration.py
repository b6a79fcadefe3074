"""Convert a sufficiency estimate to a probability that the message log contains the answer.

An estimate is already a probability if it uses the cosines of the local embedder, or if the question names a person in
the user's conversations. Any other estimate is calibrated with an offset and a slope for its log odds (Platt, 1999).
"""

from __future__ import annotations

import math
from typing import Final

from nomemory.recall.model.sufficiency import Sufficiency

_MIN_PROBABILITY: Final = 1e-4
"""Probabilities are clipped to this distance from 0 and 1."""
_LEXICAL_OFFSET: Final = -2.2
_LEXICAL_SLOPE: Final = 2.0
"""Together, the offset and the slope map 0.75 to 0.5. They map 0.6, the estimate if almost no words match, to 0.2."""


def calibrate_sufficiency(sufficiency: Sufficiency) -> float:
    """Return the calibrated probability that the message log answers the question."""
    if sufficiency.speaker_matched or not sufficiency.lexical_only:
        return sufficiency.probability
    bounded = min(max(sufficiency.probability, _MIN_PROBABILITY), 1 - _MIN_PROBABILITY)
    odds = _LEXICAL_OFFSET + _LEXICAL_SLOPE * math.log(bounded / (1 - bounded))
    return 1 / (1 + math.exp(-odds))
