"""Sufficiency estimates and the thresholds for a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """A search's estimate that the message log answers the question.

    Attributes:
        probability: the uncalibrated estimate from HybridSearch.
        speaker_matched: whether the search identified which of several people the question is about.
        lexical_only: whether the estimate is based on lexical search only.
    """

    probability: float
    speaker_matched: bool
    lexical_only: bool = False


@dataclass(frozen=True, slots=True)
class SufficiencyThresholds:
    """The host's verdict thresholds for answers without a model.

    Attributes:
        supported: minimum calibrated probability for SUPPORTED.
        possible: minimum calibrated probability for POSSIBLE; lower values are INSUFFICIENT.
        quoted: minimum probability for quoting messages after the first.
    """

    supported: float = 0.5
    possible: float = 0.3
    quoted: float = 0.11


DEFAULT_THRESHOLDS: Final = SufficiencyThresholds()
