"""How likely it is that a log answers a question, and the thresholds for a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """What a search says.

    Attributes:
        probability: how likely the log is to answer, as HybridSearch says: not calibrated.
        speaker_matched: whether it knows of whom, among several speakers, things were said.
        by_words: whether nearness in meaning has no part in it.
    """

    probability: float
    speaker_matched: bool
    by_words: bool = False


@dataclass(frozen=True, slots=True)
class EnoughRule:
    """The thresholds of an answer without a model: the host's.

    Attributes:
        supported: the calibrated probability from which a verdict is SUPPORTED.
        possible: the calibrated probability from which it is POSSIBLE; below, it is INSUFFICIENT.
        quoted: how likely a message must be to answer, to be quoted beside the first.
    """

    supported: float = 0.5
    possible: float = 0.3
    quoted: float = 0.11


DEFAULT_RULE: Final = EnoughRule()
