"""How likely it is that a log answers a question, and the thresholds for a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """What a search says.

    Attributes:
        probability: how likely the log is to answer.
        speaker_matched: whether it knows of whom, among several speakers, things were said.
        by_words: whether nearness in meaning has no part in it.
    """

    probability: float
    speaker_matched: bool
    by_words: bool = False


@dataclass(frozen=True, slots=True)
class EnoughRule:
    """The operating points of an answer: the host's.

    Attributes:
        speaker_matched: the probability that is enough where the question names one of several speakers.
        named: the same where people with names speak and the question names none.
        unnamed: the same where a user talks with an assistant.
        semantic_unavailable: the same where words alone tell: meaning could not be searched, or not by the local embedder.
        quoted: how likely a message must be to answer, to be quoted beside the first.
    """

    speaker_matched: float = 0.5
    named: float = 0.45
    unnamed: float = 0.22
    semantic_unavailable: float = 0.75
    quoted: float = 0.11

    def is_met(self, sufficiency: Sufficiency | None, *, named: bool) -> bool:
        """Return whether it is likely enough that the log answers; so it is where nobody says how likely."""
        return sufficiency is None or sufficiency.probability >= self.least(sufficiency, named=named)

    def least(self, sufficiency: Sufficiency, *, named: bool) -> float:
        """Return the probability that is enough."""
        if sufficiency.speaker_matched:
            return self.speaker_matched
        if sufficiency.by_words:
            return self.semantic_unavailable
        return self.named if named else self.unnamed


DEFAULT_RULE: Final = EnoughRule()
