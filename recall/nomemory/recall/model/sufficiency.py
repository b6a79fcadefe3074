"""How likely it is that a log answers a question, and how likely it must be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """The probability that a log answers, and whether speakers could be told apart for it."""

    probability: float
    told_apart: bool


@dataclass(frozen=True, slots=True)
class EnoughRule:
    """The operating points of the verdict, set by the host.

    Attributes:
        told_apart: the least probability where speakers are told apart. Nothing else counts there.
        otherwise: elsewhere, the probability that is enough even if the quotes cover little of the question.
    """

    told_apart: float = 0.5
    otherwise: float = 0.9
