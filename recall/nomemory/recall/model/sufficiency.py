"""How likely it is that a log answers a question, and from when on that is enough."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """What a search says: a probability, and whether it knows of whom, among several speakers, things were said."""

    probability: float
    told_apart: bool


@dataclass(frozen=True, slots=True)
class EnoughRule:
    """The operating points of the verdict: the host's.

    Attributes:
        told_apart: the probability that is enough, and needed, where speakers are told apart.
        otherwise: the probability that is enough elsewhere even if the quotes cover little of the question.
    """

    told_apart: float = 0.5
    otherwise: float = 0.9
