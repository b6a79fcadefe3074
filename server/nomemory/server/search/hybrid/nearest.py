"""The nearest messages of a sentence, overall and within the periods that its question names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.search.semantic.protocol import VectorHit


@dataclass(frozen=True, slots=True)
class NearestMessages:
    """The nearest messages, best first, and the nearest ones of each period that the question names."""

    overall: Sequence[VectorHit]
    in_periods: Sequence[VectorHit] = ()
