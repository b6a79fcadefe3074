"""Sufficiency estimates and the thresholds for a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """An estimate of whether the message log answers the question.

    Attributes:
        probability: the uncalibrated estimate of HybridSearch, 0 to 1.
        speaker_matched: whether the question names one of the people in the user's conversations.
    """

    probability: float
    speaker_matched: bool
    lexical_only: bool = False


@dataclass(frozen=True, slots=True)
class SufficiencyThresholds:
    """Thresholds, set by the host, for verdicts and quotes when no chat model answers.

    Attributes:
        supported: minimum calibrated probability for the verdict SUPPORTED.
        possible: minimum calibrated probability for the verdict POSSIBLE; below it, the verdict is INSUFFICIENT.
        quoted: minimum probability that a message is evidence, for all quoted messages except the best.
    """

    supported: float = 0.5
    possible: float = 0.2
    quoted: float = 0.18


DEFAULT_THRESHOLDS: Final = SufficiencyThresholds()
